RATE = 1e-3


def run(w, g):
    w = w.double()
    return w * (1 - RATE) - RATE * g.double().mean(0)
