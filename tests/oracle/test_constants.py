"""Constants that src/oracle/py and the C++ code both have must be equal.

If this fails, change both. Reads the text of both: the Python modules need PyTorch.
"""
import ast
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
MINUTE = 60  # seconds

# C++ file, its constant as a pattern, Python module, its constant, C++ unit in Python's unit.
TWINS = [
    ("judge/compare.h", r"kRmsFactor = (.*?);", "error_scale", "RMS_FACTOR", 1),
    ("judge/compare.h", r"kMaxFactor = (.*?);", "error_scale", "MAX_FACTOR", 1),
    ("oracle/pool.h", r"kMaxPooledBytes = (.*?);", "case_file", "HASHED_BYTES", 1),
    ("oracle/baseline.cc", r"kMaxSeeds = (.*?);", "baseline_server", "MAX_SETS", 1),
    ("oracle/baseline.cc", r"kMaxCount = (.*?);", "baseline_server", "MAX_COUNT", 1),
    ("oracle/filter_checks.h", r"kPublishedThreshold = (.*?);", "filter_variation", "PUBLISHED", 1),
    ("gpu/gpu_lock.cc", r"kTurn = (.*?);", "gpu_lock", "TURN", 1),
    ("gpu/gpu_lock.cc", r"std::chrono::minutes kLockTimeout\{(.*?)\};", "gpu_lock", "PATIENCE", MINUTE),
    ("gpu/patience.h", r"kForMemory\{std::chrono::minutes\((.*?)\)", "baseline_server", "MEMORY_PATIENCE", MINUTE),
]


def in_cpp(file, pattern):
    found = re.findall(pattern, (SOURCE / file).read_text(), re.DOTALL)
    if len(found) != 1:
        raise AssertionError(f"src/{file} matches {pattern} {len(found)} times, not once")
    return found[0]


def value_of(number):
    """The value of a C++ literal, such as 96ull << 20."""
    return eval(re.sub(r"(?<=\d)u?l*\b", "", number))


def strings_in(text):
    return re.findall(r'"([^"]*)"', text)


def in_python(module, name):
    """The expression that a module assigns to a name."""
    for node in ast.parse((SOURCE / "oracle/py" / (module + ".py")).read_text()).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(target, ast.Tuple) else [node.value]
                for one, value in zip(names, values):
                    if one.id == name:
                        return value
    raise AssertionError(f"src/oracle/py/{module}.py does not assign {name}")


def constant(module, name, **others):
    """The value of a constant that is computed from numbers, strings and `others`."""
    return eval(ast.unparse(in_python(module, name)), others)


def keys(module, name):
    return {key.value for key in in_python(module, name).keys}


class Constants(unittest.TestCase):
    def test_twins_are_equal(self):
        for file, pattern, module, name, unit in TWINS:
            with self.subTest(file=file, module=module, constant=name):
                self.assertEqual(constant(module, name), unit * value_of(in_cpp(file, pattern)))

    def test_python_draws_every_distribution(self):
        ways = constant("distributions", "WAYS")
        steps = {values for several in ways.values() for values, _ in several}
        drawn = keys("distributions", "VALUES") - steps | set(ways)
        drawn |= keys("distributions", "LAYOUTS") | keys("distributions", "PLANTED")
        names = set(strings_in(in_cpp("task/distribution.cc", r"> kNames = \{(.*?)\};")))
        self.assertEqual(drawn, names)
        one_sign = constant("distribution_cases", "OF_ONE_SIGN")
        terms = constant("error_scale", "EQUAL_TERMS")
        rounded = constant("distribution_cases", "ROUNDINGS", OF_ONE_SIGN=one_sign, EQUAL_TERMS=terms)
        self.assertLessEqual(set(rounded) | keys("float8", "KEEPS"), names)

    def test_case_files_have_the_same_types(self):
        rows = in_cpp("base/dtype.cc", r"> kRows = \{\{(.*?)\}\};")
        named = {kind: (name, int(size)) for kind, name, size in re.findall(r'\{DType::(\w+), "(\w+)", (\d+),', rows)}
        codes = in_cpp("task/safetensors.cc", r"kCodes\[\] = \{(.*?)\};")
        codes = dict(re.findall(r'\{"(\w+)", DType::(\w+)\}', codes))
        self.assertEqual(constant("case_file", "DTYPES"),
                         {named[kind][0]: (code, named[kind][1]) for code, kind in codes.items()})

    def test_baselines_have_the_same_names(self):
        body = in_cpp("oracle/baseline.cc", r"const char\* Name\(BaselineKind kind\) \{(.*?)\n\}")
        kinds = constant("baseline_server", "KINDS", MODES=constant("compiled_function", "MODES"))
        self.assertEqual(set(kinds), set(strings_in(body)) - {"?"})
        body = in_cpp("oracle/baseline.cc", r"const char\* Name\(Baselines::Mode mode\) \{(.*?)\n\}")
        self.assertEqual(set(constant("baseline_server", "SAMPLE_MODES")), set(strings_in(body)) - {"?"})

    def test_confirm_times_in_the_same_ways(self):
        ways = in_cpp("app/confirm/confirm.h", r"kConfirmWays\[\] = \{(.*?)\};")
        self.assertEqual(keys("confirm", "WAYS"), set(strings_in(ways)))


if __name__ == "__main__":
    unittest.main()
