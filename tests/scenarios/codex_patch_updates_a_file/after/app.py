import sys


def greet():
    print("Hello")


def part():
    print("Hi")
