"""Images from outside: look at, convert, split; who refuses them and what they refuse."""

import gzip
import struct

from program import ProgramTest

IMAGES = "generate:images?classes=3&size=8&channels=1&rows_train=60&rows_test=20"


def idx(values, *shape):
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(values)


class Images(ProgramTest):
    def info(self, *arguments):
        return self.json_of("data", "info", "--json", *arguments)

    def test_idx_compressed_and_converted(self):
        pixels, labels = [i % 251 for i in range(5 * 12)], [2, 0, 1, 1, 0]
        for folder, pack, ending in (("plain", bytes, ""), ("packed", gzip.compress, ".gz")):
            (self.folder / folder).mkdir()
            (self.folder / folder / f"t-images-idx3-ubyte{ending}").write_bytes(pack(idx(pixels, 5, 3, 4)))
            (self.folder / folder / f"t-labels-idx1-ubyte{ending}").write_bytes(pack(idx(labels, 5)))
        plain, packed = self.info("plain/t-images-idx3-ubyte"), self.info("packed/t-images-idx3-ubyte.gz")
        self.assertEqual(plain["format"], "idx")
        self.assertEqual([plain["images"][key] for key in ("channels", "height", "width")], [1, 3, 4])
        self.assertAlmostEqual(plain["images"]["channel_means"][0], 29.5, places=4)
        self.run_program("data", "convert", "plain/t-images-idx3-ubyte", "t.hsgd")
        converted = self.info("t.hsgd")
        for key in ("rows", "labels", "task", "images", "label_names"):
            self.assertEqual(packed[key], plain[key], key)
            self.assertEqual(converted[key], plain[key], key)
        self.run_program("data", "verify", "t.hsgd", "packed/t-images-idx3-ubyte.gz")
        self.run_program("data", "convert", "--to", "xc", "t.hsgd", "t.txt", code=2)
        (self.folder / "plain" / "t-labels-idx1-ubyte").rename(self.folder / "plain" / "other")
        self.refused(["data", "info", "--cache", "off", "plain/t-images-idx3-ubyte"], "plain/t-images-idx3-ubyte", code=4)

    def test_sparse_rows_as_images(self):
        self.write("rows.svm", "1 1:1 4:0.5\n2 2:1\n")
        found = self.info("--image", "1x2x2", "rows.svm")
        self.assertEqual((found["images"]["width"], found["features"]), (2, 0))
        self.refused(["data", "info", "--image", "2x2", "rows.svm"], ("", "2x2"))
        self.refused(["data", "info", "--image", "1x1x3", "rows.svm"], "rows.svm", code=4)

    def test_a_converted_test_file_has_the_scale_of_the_training_file(self):
        self.write("im.svm", "1 1:255 4:200\n2 2:255 3:180\n")
        self.write("dark.svm", "1 1:1 4:1\n2 2:1 3:1\n")
        convert = ["data", "convert", "--image", "1x2x2", "dark.svm"]
        for more, mean, said in (([], 127.5, "shares"), (["--vocabulary", "im.svm"], 111.25, "those of the training data are bytes")):
            self.assertIn(said, self.run_program(*convert, f"{len(more)}.hsgd", *more).stderr)
            self.assertEqual(self.info(f"{len(more)}.hsgd")["images"]["channel_means"], [mean])

    def test_what_does_not_fit(self):
        run = ["--test", IMAGES, "--epochs", "1", "-o", "r.json"]
        self.refused(["train", "--train", IMAGES, "--model", "mlp", *run], ("--model", "mlp", "1x8x8"))
        self.refused(["train", "--train", "generate:tiny", "--augment", "crop", "--epochs", "1", "-o", "r.json"], "--augment")
        self.refused(["data", "info", "generate:images?sice=8"], ("", "sice"))
        for name, record, label in (("cifar10", 3073, 10), ("cifar100", 3074, 20)):  # by their size they are images, not text
            (self.folder / "bad.bin").write_bytes(bytes([label]) + bytes(record - 1))
            self.assertIn(f"--format {name}", self.refused(["data", "info", "bad.bin"], "bad.bin", code=4))

    def test_sequences_are_shown_and_not_written(self):
        clips = "generate:video?clips=50&classes=3&size=4&median=9&shortest=2&longest=30"
        for data, *shown in ((IMAGES, "1x8x8 bytes: channels, height, width"),
                             (clips, r"numbers of a frame +4\n", r"frames +\d+ in all; [\d.]+ per row \(\d+ to \d+\)")):
            text = self.run_program("data", "info", data).stdout
            self.assertNotIn("nonzeros", text)
            for each in shown:
                self.assertRegex(text, each)
        self.run_program("data", "convert", clips, "clips.hsgd", code=4)
        network = "lstm-video?size=4&units=6&dense=5&classes=3"
        for data, name in ((clips, "r.json"), (clips + "&frames=drawn", "drawn.json")):
            self.run_program("train", "--train", data, "--test", data, "--model", network, "--order", "bucketed", "--batch-size", "8",
                             "--learning-rate", "0.1", "--epochs", "1", "-o", name)
        self.assertEqual(self.result("drawn.json")["summary"]["final"], self.result("r.json")["summary"]["final"])
        data = self.result("r.json")["dataset"]["train"]
        self.assertEqual(data["frame_numbers"], 4)
        self.assertGreater(data["frames"], 100)
