# Stands in for the tracer in tests: runs the code of requests and answers with what the code assigns to `result`, or
# with the exception that it raises.
# SPDX-License-Identifier: Apache-2.0


def prepare():
    pass


def serve(channel):
    while (request := channel.read()) is not None:
        if request["op"] == "echo":
            channel.write(request)
            continue
        names = {"channel": channel}
        try:
            exec(request["code"], names)
            channel.write({"result": str(names.get("result"))})
        except BaseException as error:
            channel.write({"raised": type(error).__name__, "text": str(error)})
