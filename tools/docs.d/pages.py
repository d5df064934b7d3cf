"""MkDocs' hook: documents are written as GitHub reads them, and this makes MkDocs read them alike."""
import os
import re

from mkdocs.structure.files import File

CODE = re.compile(r"`[^`]*`")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)([^)#\s]+)")


def as_github_reads(text):
    """A list or table may begin right below a paragraph; Markdown's first definition, MkDocs', wants an empty line. In a table a |
    of code is written \\|, which MkDocs would show as it is."""
    lines, fenced, before = [], False, ""
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        begins_list = ITEM.match(line) and not before.startswith(" ") and not ITEM.match(before)
        begins_table = line.startswith("|") and not before.startswith("|")
        if not fenced and before and (begins_list or begins_table):
            lines.append("")
        if not fenced and line.startswith("|"):
            line = CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
        before = line
    return "\n".join(lines)


def outside(root, docs, page):
    """(link as written, path below the repository) of each file outside docs/ that a page links."""
    with open(os.path.join(docs, page), encoding="utf-8") as file:
        for up, rest in OUTSIDE.findall(file.read()):
            path = os.path.relpath(os.path.join(docs, os.path.dirname(page), up, rest), root)
            if os.path.isfile(os.path.join(root, path)) and not path.startswith(("docs/", "../")):
                yield up + rest, path


def on_files(files, config):
    """Files of the source that pages link become files of the site."""
    docs = config["docs_dir"]
    root = os.path.dirname(docs)
    for page in files.documentation_pages():
        for _, path in outside(root, docs, page.src_uri):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                name = f"source/{path}.txt"
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, content=file.read()))
    return files


def on_page_markdown(markdown, page, config, files):
    docs = config["docs_dir"]
    for link, path in outside(os.path.dirname(docs), docs, page.file.src_uri):
        here = os.path.relpath(f"source/{path}.txt", os.path.dirname(page.file.src_uri) or ".")
        markdown = markdown.replace(f"]({link}", f"]({here}")
    return as_github_reads(markdown)
