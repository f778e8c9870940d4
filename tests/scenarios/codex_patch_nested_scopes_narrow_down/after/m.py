class Base:
    def method(self):
        return None


class Other:
    def method(self):
        return 1

    def more(self):
        return None
