"""Runs a package's own test on the CPU, with a Python function instead of each kernel.
Usage: run_package.py PACKAGE_FOLDER NAME STANDINS.py"""
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import standin_torch  # noqa: E402

standin_torch.install()
folder, name, standins = sys.argv[1:]
spec = importlib.util.spec_from_file_location("standins", standins)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for direction in ("forward", "backward"):
    if hasattr(module, direction):
        extension = type(sys)("%s._%s" % (name, direction))
        setattr(extension, direction, getattr(module, direction))
        sys.modules["%s._%s" % (name, direction)] = extension
package = pathlib.Path(folder) / "src" / name
ops = package / "ops.py"
ops.write_text(ops.read_text().replace('DEVICES = "cuda"', 'DEVICES = "cpu"'))
sys.path.insert(0, str(package.parent))
test = importlib.import_module(name + ".test")
test.DEVICE = "cpu"
sys.exit(test.main())
