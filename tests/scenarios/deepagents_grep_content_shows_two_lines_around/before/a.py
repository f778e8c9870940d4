one
two
three
a needle
five
needles
seven
eight
nine
ten
eleven
needle
