class Base:
    def method(self):
        return None


class Other:
    def method(self):
        return None

    def more(self):
        return None
