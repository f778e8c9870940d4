needle one
b
