"""There are no outliers: the input is the output."""


def run(x):  # x: [M, N]
    return x.view(x.shape)
