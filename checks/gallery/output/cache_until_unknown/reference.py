def run(x):
    y = x
    for k in range(1, 9):
        y = y + (x * k).sin() / k
    return y
