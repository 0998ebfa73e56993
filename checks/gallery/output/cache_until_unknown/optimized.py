plans = {}


def run(x):
    orders = plans.setdefault(tuple(x.shape), list(range(1, 9)))
    y = x.clone()
    for k in orders:
        y += (x * k).sin() / k
    return y
