import sys


def greet():
    print("Hi")


def part():
    print("Hi")
