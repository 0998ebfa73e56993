"""One product."""


def run(x, w):  # x: [M, K], w: [K, N]
    return x @ w
