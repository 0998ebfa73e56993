"""Sum of squares of each row, in fp64."""


def run(x):  # x: [M, N]
    return x.double().square().sum(dim=1)
