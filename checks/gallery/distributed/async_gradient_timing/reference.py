RATE = 1e-3


def run(w, g):
    w = w.double()
    return w - RATE * w.tanh() - RATE * g.double().mean(0)
