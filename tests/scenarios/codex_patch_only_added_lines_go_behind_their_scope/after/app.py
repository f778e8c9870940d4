import sys
import os


def greet():
    print("Hi")


def part():
    print("Hi")
