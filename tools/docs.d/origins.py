"""origins.py FOLDER: reads a site and reports everything loaded from another origin: automatic loads of a page, URLs in
style sheets, and pages without the policy that lets a browser block the rest (scripts' own requests). Exit 1."""
import glob
import html.parser
import os
import re
import sys

FOREIGN = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//|\s*(?:https?|ftp|wss?):", re.I)
POLICY = "default-src 'self' 'unsafe-inline'; img-src 'self' data:"
# Links of these kinds describe the page and load nothing.
SAID = {"canonical", "next", "prev", "author", "license"}
CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""", re.I)


def css_urls(text):
    return [one or two for one, two in CSS_URL.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.S))]


class Page(html.parser.HTMLParser):
    """The loads of a page, [(element, URL)], and whether it has the policy."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.has_policy, self.in_style = [], False, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        if tag == "meta" and attrs.get("http-equiv", "").lower() == "content-security-policy":
            self.has_policy = attrs.get("content") == POLICY
        if tag == "link" and set(attrs.get("rel", "").split()) <= SAID:
            return
        for name in ("src", "data", "poster", "action", "background"):
            self.add(tag, attrs.get(name))
        if tag in ("link", "image", "use", "base"):
            self.add(tag, attrs.get("href") or attrs.get("xlink:href"))
        for part in attrs.get("srcset", "").split(","):
            self.add(tag, part.strip().split(" ")[0])
        for url in css_urls(attrs.get("style", "")):
            self.add(tag, url)

    def handle_endtag(self, tag):
        self.in_style = False

    def handle_data(self, data):
        if self.in_style:
            for url in css_urls(data):
                self.add("style", url)

    def add(self, tag, url):
        if url and FOREIGN.match(url):
            self.loads.append((tag, url))


def faults(path, text):
    if path.endswith(".css"):
        yield from (f"style names {url}" for url in css_urls(text) if FOREIGN.match(url))
        return
    page = Page(text)
    yield from (f"<{tag}> loads {url}" for tag, url in page.loads)
    if path.endswith(".html") and not page.has_policy:
        yield "has no Content-Security-Policy (tools/docs.d/theme/main.html)"


def main(folder):
    files = [path for end in ("html", "css", "svg") for path in glob.glob(f"{folder}/**/*.{end}", recursive=True)]
    found = []
    for path in sorted(files):
        with open(path, encoding="utf-8") as file:
            found += [f"{os.path.relpath(path, folder)}: {fault}" for fault in faults(path, file.read())]
    print("\n".join(found + ["a page may take nothing from another origin: put the file into docs/"]) if found
          else f"{len(files)} files take nothing from another origin")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
