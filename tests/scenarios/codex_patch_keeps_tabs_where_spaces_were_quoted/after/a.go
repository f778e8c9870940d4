func f() {
	one()
	if x {
		three()
	}
}
