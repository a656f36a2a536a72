"""The modules of src/oracle/py must import each other without cycles.

Counts all imports: those at the head of a module, in functions, and for type hints.
"""
import ast
import graphlib
import pathlib
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "src/oracle/py"


def imported_by(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


class Imports(unittest.TestCase):
    def test_have_no_cycles(self):
        graph = {path.stem: set(imported_by(path)) for path in FOLDER.glob("*.py")}
        self.assertIn("case_server", graph["oracle"])
        graph = {name: imports & set(graph) for name, imports in graph.items()}
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            self.fail("modules import each other: " + " -> ".join(reversed(error.args[1])))


if __name__ == "__main__":
    unittest.main()
