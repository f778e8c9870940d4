RATE = 19


def add(price):
    return price * (100 + RATE) // 100
