from tax import add


def total(prices):
    return sum(add(price) for price in prices)
