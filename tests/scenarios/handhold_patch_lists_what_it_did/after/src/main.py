import sys


def greet():
    print("Hello, world!")


def part():
    print("Hi")
