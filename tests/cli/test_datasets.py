"""hetsgd data fetch: from a folder, from a server, and everything that may be wrong with what comes."""

import contextlib
import functools
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import threading
import unittest

from program import ProgramTest

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "datasets" / "samples"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class Cutting(Quiet):
    """Promises a whole file and sends half of it."""

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[:len(content) // 2])


class Endless(Quiet):
    """Announces no length, sends more than any file here holds, and does not end by itself soon."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(1000):
                self.wfile.write(bytes(1 << 20))


class Datasets(ProgramTest):
    def setUp(self):
        super().setUp()
        self.home = self.folder / "datasets"
        self.source = self.folder / "source"
        self.source.mkdir()
        for name in ("train.txt", "test.txt"):
            shutil.copy(SAMPLES / f"tiny_{name}", self.source / name)

    def environment(self, extra=None):
        return {**super().environment(extra), "HETSGD_DATASETS_DIR": str(self.home)}

    def manifest(self, address=None, **changes):
        """mine.json, of the files in self.source as they should be."""
        document = json.loads((SAMPLES / "tiny.json").read_text())
        document.update({"name": "mine"})
        for part in ("train", "test"):
            content = (SAMPLES / f"tiny_{part}.txt").read_bytes()
            document[part].update({"name": f"{part}.txt", "bytes": len(content),
                                   "sha256": hashlib.sha256(content).hexdigest(),
                                   "address": f"{address}/{part}.txt" if address else None})
        for key, value in changes.items():
            part, _, inner = key.partition("_")
            if inner:
                document[part][inner] = value
            else:
                document[key] = value
        self.write("mine.json", document)

    def serve(self, handler=Quiet):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=self.source))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def refuse(self, *arguments, code, names):
        """The fetch fails by what is named, and leaves nothing behind."""
        self.refused(["data", "fetch", "mine.json", *arguments], names, code=code)
        self.assertEqual(os.listdir(self.home) if self.home.exists() else [], [])

    def check_fetched(self, sources):
        fetched = json.loads((self.home / "mine" / "fetched.json").read_text())
        self.assertEqual([file["source"] for file in fetched["files"]], sources)
        for file, part in zip(fetched["files"], ("train", "test")):
            content = (SAMPLES / f"tiny_{part}.txt").read_bytes()
            self.assertEqual((self.home / "mine" / file["name"]).read_bytes(), content)
            self.assertEqual(file["sha256"], hashlib.sha256(content).hexdigest())
            self.assertEqual(file["bytes"], len(content))
        self.assertEqual(sorted(os.listdir(self.home)), ["mine"])

    def test_a_fetched_data_set_trains_by_its_name(self):
        self.manifest()
        self.refused(["data", "info", "mine.json"], "mine", "hetsgd data fetch mine", code=4)
        self.run_program("data", "fetch", "mine.json", "--from", "source")
        self.check_fetched(["source/train.txt", "source/test.txt"])
        info = self.json_of("data", "info", "--json", "mine.json")
        self.assertEqual((info["name"], info["rows"]), ("mine", 20))
        self.run_program("train", "--train", "mine.json", "--test", "mine.json", "--epochs", "1",
                         "--hidden", "4", "--batch-size", "4", "-o", "r.json")
        dataset = self.result("r.json")["dataset"]
        self.assertEqual((dataset["train"]["rows"], dataset["test"]["rows"]), (20, 10))
        self.run_program("rerun", "r.json", "-o", "again.json")
        # It is no output, and is not replaced unasked.
        self.refused(["train", "--train", "mine.json", "--epochs", "1", "--overwrite", "-o", str(self.home / "mine" / "train.txt")],
                     ("--output", "--train"))
        self.refused(["data", "fetch", "mine.json", "--from", "source"], ("", "datasets/mine"), "--overwrite")
        self.run_program("data", "fetch", "mine.json", "--from", "source/train.txt",
                         "--from", "source/test.txt", "--overwrite")
        self.check_fetched(["source/train.txt", "source/test.txt"])

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_a_server_is_asked(self):
        address = self.serve()
        self.manifest(address)
        self.run_program("data", "fetch", "mine.json")
        self.check_fetched([f"{address}/train.txt", f"{address}/test.txt"])

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_what_a_server_may_do_wrong(self):
        for handler in (Cutting, Endless):  # sends less, or more, than was promised
            address = self.serve(handler)
            self.manifest(address)
            self.refuse(code=1, names=("", f"{address}/train.txt"))
        address = self.serve()
        self.manifest(address)
        (self.source / "test.txt").unlink()
        self.refuse(code=1, names=("", f"{address}/test.txt", "22"))
        self.manifest("http://127.0.0.1:1")
        self.refused(["data", "fetch", "mine.json"], "", "--from", code=1)

    def test_what_a_file_may_be(self):
        whole = (self.source / "train.txt").read_bytes()
        self.manifest()
        for content, names in ((whole[:len(whole) // 2], ("", f"found {len(whole) // 2} bytes", str(len(whole)))),
                               (whole.replace(b":", b";", 1), ("", "SHA-256"))):
            (self.source / "train.txt").write_bytes(content)
            self.refuse("--from", "source", code=4, names=names)
        (self.source / "train.txt").unlink()
        self.refuse("--from", "source", code=4, names=("", "train.txt", "source"))
        self.refuse(code=2, names="mine")

    def test_what_nobody_has_measured_is_compared_with_its_shape(self):
        self.manifest(train_sha256=None, train_bytes=None, train_rows=21)
        self.refuse("--from", "source", code=4, names=("mine", "found 20", "21"))
        self.manifest(features=499)
        self.refuse("--from", "source", code=4, names=("mine", "499"))
        self.manifest(train_sha256=None, train_bytes=None)
        self.run_program("data", "fetch", "mine.json", "--from", "source")
        self.check_fetched(["source/train.txt", "source/test.txt"])

    def test_a_manifest_may_be_wrong(self):
        for changes, place in (({"train_sha256": "ab"}, "train.sha256"), ({"train_name": "../x"}, "train.name"),
                               ({"task": "guess"}, "task"), ({"train_rows": 0}, "train.rows"),
                               *(({"train_address": address}, "train.address")
                                 for address in ("file:///dev/zero", "/dev/zero", "ftp://host/x", "-o"))):
            self.manifest(**changes)
            self.refuse("--from", "source", code=4, names=f"mine.json: {place}")
        self.refused(["data", "fetch", "news2"], ("", "news2"), "news20")

    def test_no_name_of_a_manifest_leads_out_of_its_folder(self):
        """Neither to other folders, nor to the other file, nor to the record beside them."""
        (self.home / "other").mkdir(parents=True)
        (self.home.parent / "precious").write_text("precious")
        before = sorted(os.listdir(self.folder))
        for name in ("..", ".", "", "../x", "a/b", "..\0x", "a\x1b[31mb", "a\x7f", "a\nb",
                     " ", "-rf", "~", "...", " mine", "mine ", "$HOME", "*"):  # which commands misread
            for key in ("name", "train_name", "test_name"):
                self.manifest(**{key: name})
                for more in ([], ["--overwrite"]):
                    with self.subTest(name=name, key=key, more=more):
                        self.refused(["data", "fetch", "mine.json", "--from", "source", *more], ("mine.json", "name: "), code=4)
        for changes in ({"test_name": "train.txt"}, {"train_name": "fetched.json"}):
            self.manifest(**changes)
            self.refused(["data", "fetch", "mine.json", "--from", "source"], ("mine.json", "name: "), code=4)
        self.assertEqual((sorted(os.listdir(self.home)), sorted(os.listdir(self.folder))),
                         (["other"], sorted({*before, "mine.json"})))

    def test_what_is_fetched_again_is_not_read_from_what_it_replaces(self):
        self.manifest()
        self.run_program("data", "fetch", "mine.json", "--from", "source")
        shutil.copy(self.folder / "mine.json", self.home / "mine" / "mine.json")
        kept = sorted(os.listdir(self.home / "mine"))
        here = str(self.home / "mine")
        self.refuse_all(["data", "fetch", "--overwrite"], (
            ([f"{here}/mine.json", "--from", "source"], ("", "mine.json")), (["mine.json", "--from", here], ("", here)),
            (["mine.json", "--from", "source", "--from", f"{here}/train.txt"], ("", "train.txt"))))
        self.assertEqual(sorted(os.listdir(self.home / "mine")), kept)

    def test_samples_hold_the_same_rows_in_every_format(self):
        def facts(name, *more):
            info = self.json_of("data", "info", "--json", str(SAMPLES / name))
            return {key: info[key] for key in ("rows", "features", "labels", "density", "value_max", *more)}

        # The binary form keeps the hash of the text that it was made from.
        self.assertEqual(facts("tiny_train.hsgd", "content_hash"), facts("tiny_train.txt", "content_hash"))
        self.assertEqual(facts("tiny.svm.gz"), facts("tiny.svm"))

    def test_every_manifest_of_the_program_is_one(self):
        names = [path.stem for path in SAMPLES.parent.glob("*.json")]
        self.assertIn("a9a", names)
        for name in names:
            self.refused(["data", "info", name], name, f"hetsgd data fetch {name}", code=4)
