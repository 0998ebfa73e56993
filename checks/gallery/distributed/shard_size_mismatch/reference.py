SMALL = 2e-3


def run(shard, x):
    whole = shard.double().reshape(-1)
    return x.double() * (1 + SMALL * whole)
