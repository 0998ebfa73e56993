"""torch's median."""


def run(x):  # x: [M, N]
    return x.median(dim=1).values
