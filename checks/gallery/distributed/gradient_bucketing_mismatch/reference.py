RATE = 1e-3


def run(w, g):
    return w.double() - RATE * g.double().mean(0)
