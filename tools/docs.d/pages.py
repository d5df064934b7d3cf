"""A hook for MkDocs: documents are written for GitHub, and this makes MkDocs read them in the same way. It adds the
documents of the repository's root, so that MkDocs checks their links too, and the source files that documents link."""
import glob
import os
import re

from mkdocs.structure.files import File

CODE = re.compile(r"`[^`]*`")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
LINK = re.compile(r"(?<=\]\()[^)#\s:]+(?=[)#])")  # without scheme
OF_ROOT = "project"  # where documents of the root are in the site


def as_github_reads(text):
    """Allows a list or table directly below a paragraph, and an item below a paragraph of the item before, for which
    MkDocs' Markdown needs an empty line. In a table a | of code is written \\|, which MkDocs would show unchanged."""
    lines, fenced, before, in_item = [], False, "", False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        if not before:
            in_item = line.startswith(" ")  # a paragraph of its own
        begins_list = ITEM.match(line) and not ITEM.match(before) and (in_item or not before.startswith(" "))
        begins_table = line.startswith("|") and not before.startswith("|")
        if not fenced and before and (begins_list or begins_table):
            lines.append("")
        if not fenced and line.startswith("|"):
            line = CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
        before = line
    return "\n".join(lines)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def in_site(path):
    """Returns where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path[len("docs/"):]
    return f"{OF_ROOT}/{path}" if re.fullmatch(r"[^/]+\.md", path) else f"source/{path}.txt"


def target_of(link, page, root):
    """Returns the file of the repository that `page`, a path below it too, links; None if there is none."""
    path = os.path.normpath(os.path.join(os.path.dirname(page), link))
    return path if not path.startswith("..") and os.path.isfile(os.path.join(root, path)) else None


def on_files(files, config):
    """Adds documents of the root, and linked source files."""
    root = os.path.dirname(config["docs_dir"])
    documents = {os.path.join("docs", page.src_uri): page.content_string for page in files.documentation_pages()}
    for name in sorted(glob.glob("*.md", root_dir=root)):
        documents[name] = read(os.path.join(root, name))
        files.append(File.generated(config, in_site(name), content=documents[name]))
    for page, text in documents.items():
        for link in LINK.findall(text):
            path = target_of(link, page, root)
            if path and files.get_file_from_path(in_site(path)) is None:
                files.append(File.generated(config, in_site(path), content=read(os.path.join(root, path))))
    return files


def on_page_markdown(markdown, page, config, files):
    root, here = os.path.dirname(config["docs_dir"]), page.file.src_uri
    source = here[len(OF_ROOT) + 1:] if here.startswith(f"{OF_ROOT}/") else f"docs/{here}"

    def moved(link):
        path = target_of(link[0], source, root)
        return os.path.relpath(in_site(path), os.path.dirname(here) or ".") if path else link[0]

    return as_github_reads(LINK.sub(moved, markdown))
