import unittest

from ranges import count, total


class RangesTest(unittest.TestCase):
    def test_count(self):
        self.assertEqual(count(1, 3), 3)

    def test_empty(self):
        self.assertEqual(total(3, 1), 0)
