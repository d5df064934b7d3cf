"""A terminal's screen: converts a program's output to rows of characters with their colours."""
import codecs
import re

PLAIN = (None, False)  # colour 0-15 or None, bold
SEQUENCE = re.compile(r"\x1b(?:\[([?<=>]?)([\d;]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[@-Z\\^_=>78])")
UNFINISHED = re.compile(r"\x1b(?:\[[?<=>]?[\d;]*[ -/]*|\][^\x07\x1b]*\x1b?|[()])?$")


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.height = columns, rows
        self.rows = [[] for _ in range(rows)]  # lists of (character, style)
        self.x = self.y = 0
        self.style = PLAIN
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.waiting = ""

    def feed(self, data):
        text = self.waiting + self.decoder.decode(data)
        unfinished = UNFINISHED.search(text)
        self.waiting = unfinished[0] if unfinished else ""
        text = text[:len(text) - len(self.waiting)]
        at = 0
        for found in SEQUENCE.finditer(text):
            self.write(text[at:found.start()])
            if found[3] and not found[1]:
                self.control(found[3], [int(number) if number else None for number in found[2].split(";")])
            at = found.end()
        self.write(text[at:])

    def write(self, text):
        for character in text:
            if character == "\r":
                self.x = 0
            elif character == "\n":
                self.line_feed()
            elif character == "\b":
                self.x = max(self.x - 1, 0)
            elif character == "\t":
                self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
            elif character >= " ":
                self.put(character)

    def put(self, character):
        if self.x >= self.columns:  # the row is full: start the next one
            self.x = 0
            self.line_feed()
        row = self.rows[self.y]
        row += [(" ", PLAIN)] * (self.x + 1 - len(row))
        row[self.x] = (character, self.style)
        self.x += 1

    def line_feed(self):
        if self.y + 1 < self.height:
            self.y += 1
        else:
            self.rows = self.rows[1:] + [[]]

    def control(self, letter, numbers):
        first = numbers[0]
        count = first or 1
        if letter == "m":
            self.colour([number or 0 for number in numbers])
        elif letter in "AB":
            self.y = min(max(self.y + (count if letter == "B" else -count), 0), self.height - 1)
        elif letter in "CD":
            self.x = min(max(self.x + (count if letter == "C" else -count), 0), self.columns - 1)
        elif letter == "G":
            self.x = min(count, self.columns) - 1
        elif letter in "Hf":
            self.y = min(count, self.height) - 1
            self.x = min((numbers[1] if len(numbers) > 1 else None) or 1, self.columns) - 1
        elif letter == "K":
            self.erase_row(first or 0)
        elif letter == "J":
            self.erase_row(first or 0)
            for y in range(self.height):
                if (y > self.y and first != 1) or (y < self.y and first in (1, 2, 3)):
                    self.rows[y] = []

    def erase_row(self, what):
        row = self.rows[self.y]
        if what == 0:
            self.rows[self.y] = row[:self.x]
        else:
            blank = self.x + 1 if what == 1 else len(row)
            self.rows[self.y] = [(" ", PLAIN)] * min(blank, len(row)) + row[blank:]

    def colour(self, numbers):
        hue, bold = self.style
        for number in numbers:
            if number == 0:
                hue, bold = PLAIN
            elif number in (1, 22):
                bold = number == 1
            elif number == 39:
                hue = None
            elif 30 <= number <= 37 or 90 <= number <= 97:
                hue = number - 30 if number < 90 else number - 82
        self.style = (hue, bold)

    def shown(self):
        """Returns each row as ((text, style), ...), without trailing blanks."""
        return [spans(row) for row in self.rows]


def spans(row):
    found = []
    for character, style in row:
        if found and found[-1][1] == style:
            found[-1][0] += character
        else:
            found.append([character, style])
    while found and not found[-1][0].rstrip():
        found.pop()
    if found:
        found[-1][0] = found[-1][0].rstrip()
    return tuple((text, style) for text, style in found)
