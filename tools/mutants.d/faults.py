"""Small faults of C++ code, found in its text: what a line does in the mutant of a number, and what it does otherwise."""
import collections
import hashlib
import re

# One fault: the line (from 0), its kind, the line that has both, and what it does in the mutant, for people.
Fault = collections.namedtuple("Fault", "path line kind text says")

IS = "::mtrun::MutantIs({n})"
CONDITION = re.compile(r"^(\s+(?:\} else )?if )\((.*)$")
CALL = re.compile(r"^(\s+)((?:static_cast<void>\()?[A-Za-z_][\w:]*(?:(?:->|\.)\w+|\[[^\]]*\]|\(\))*\(.*\)\)?;)$")
RETURN = re.compile(r"^(\s+)return (true|false);$")
ONE = re.compile(r"(?<=[\w)\]] )([+-]) 1(?=[;,)\] ])")
NOT_CALLS = re.compile(r"^\s+(return|delete|throw|new|if|else|for|while|switch|case|using|do|goto|co_\w+|MT_CHECK\w*|MT_ASSIGN\w*|LOG|log::|ABSL_|static_assert|"
                       r"std::move|assert)\b")
OPERATORS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " && ": " || ", " || ": " && ", " == ": " != ", " != ": " == "}


def closing(text):
    """Returns the index of the parenthesis that closes the one before `text`, or -1."""
    depth, quoted, at = 1, "", 0
    while at < len(text):
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = "" if c == quoted else quoted
        elif c in "\"'":
            quoted = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return -1


def is_declaration(condition):
    return re.search(r"[\w>&*] \w+ = ", condition) is not None or ";" in condition


def of_condition(path, number, line):
    """Yields the faults of `if (...)`: the opposite, and each operator replaced by its neighbour."""
    found = CONDITION.match(line)
    if not found or "constexpr" in line:
        return
    end = closing(found[2])
    condition = found[2][:end]
    if end < 0 or is_declaration(condition) or "[" in condition and "{" in condition:
        return
    head, rest = found[1], found[2][end + 1:]
    yield Fault(path, number, "condition", f"{head}({IS} != static_cast<bool>({condition})){rest}", f"not ({condition})")
    for operator, other in OPERATORS.items():
        if condition.count(operator) == 1:
            changed = condition.replace(operator, other)
            yield Fault(path, number, "operator",
                        f"{head}({IS} ? static_cast<bool>({changed}) : static_cast<bool>({condition})){rest}", changed)


def of_call(path, number, line):
    """Yields the fault of a statement that only calls: it is left out."""
    found = CALL.match(line)
    if not found or NOT_CALLS.match(line):
        return
    statement = found[2]
    first = statement.index("(")
    if " " in statement[:first] or closing(statement[first + 1:]) < 0:
        return
    yield Fault(path, number, "call", f"{found[1]}if (!{IS}) {{ {statement} }}", f"without {statement}")


def of_return(path, number, line):
    found = RETURN.match(line)
    if found:
        other = "false" if found[2] == "true" else "true"
        yield Fault(path, number, "result", f"{found[1]}return {IS} ? {other} : {found[2]};", f"return {other};")


def of_one(path, number, line):
    """Yields the fault of `+ 1` and `- 1`: by one too few or too many."""
    found = list(ONE.finditer(line))
    if len(found) == 1 and "constexpr" not in line and "case " not in line and not line.lstrip().startswith(("//", "///")):
        at = found[0]
        yield Fault(path, number, "by one", f"{line[:at.start()]}{at[1]} ({IS} ? 0 : 1){line[at.end():]}", f"without {at[1]} 1: {line.strip()}")


def of_file(path, text):
    """Returns all faults of a source file, the lines of functions alone."""
    found, continued = [], False
    for number, line in enumerate(text.split("\n")):
        begins = not continued
        stripped = line.strip()
        continued = bool(stripped) and not stripped.endswith((";", "{", "}", ":")) and not stripped.startswith(("#", "//"))
        if not begins or not line.startswith("  ") or stripped.startswith(("//", "#", "*")):
            continue
        for make in (of_condition, of_call, of_return, of_one):
            found += make(path, number, line)
    return found


def chosen(faults, count, seed):
    """Returns `count` faults, at most one of a line, evenly over the rooms; the same for the same seed and lines."""
    def order(fault):
        return hashlib.sha256(f"{seed} {fault.path} {fault.kind} {fault.says}".encode()).hexdigest()

    rooms = collections.defaultdict(list)
    for fault in sorted(faults, key=order):
        rooms["/".join(fault.path.split("/")[:2]) if fault.path.count("/") > 1 else fault.path.split("/")[0]].append(fault)
    picked, lines = [], set()
    while len(picked) < count and rooms:
        for room in sorted(rooms):
            while rooms[room]:
                fault = rooms[room].pop(0)
                if (fault.path, fault.line) not in lines:
                    lines.add((fault.path, fault.line))
                    picked.append(fault)
                    break
            if not rooms[room]:
                del rooms[room]
            if len(picked) == count:
                break
    return picked
