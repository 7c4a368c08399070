"""Images from outside: look at, convert, split; who refuses them and what they refuse."""

import gzip
import json
import struct
import unittest

from program import ProgramTest

IMAGES = "generate:images?classes=3&size=8&channels=1&rows_train=60&rows_test=20"


def idx(values, *shape):
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(values)


class Images(ProgramTest):
    def info(self, *arguments):
        return json.loads(self.run_program("data", "info", "--json", *arguments).stdout)

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
        self.assertIn("no file with the labels", self.rename_labels())
        self.assertIn("images cannot be written as XC text", self.error("data", "convert", "--to", "xc", "t.hsgd", "t.txt", code=2))

    def rename_labels(self):
        (self.folder / "plain" / "t-labels-idx1-ubyte").rename(self.folder / "plain" / "other")
        return self.error("data", "info", "--cache", "off", "plain/t-images-idx3-ubyte", code=4)

    def test_sparse_rows_as_images(self):
        (self.folder / "rows.svm").write_text("1 1:1 4:0.5\n2 2:1\n")
        found = self.info("--image", "1x2x2", "rows.svm")
        self.assertEqual(found["images"]["width"], 2)
        self.assertEqual(found["features"], 0)
        self.assertIn("expected channels, height and width", self.error("data", "info", "--image", "2x2", "rows.svm", code=2))
        self.assertIn("expected below 3", self.error("data", "info", "--image", "1x1x3", "rows.svm", code=4))

    def test_models_say_what_they_read(self):
        text = self.error("train", "--train", IMAGES, "--test", IMAGES, "--model", "mlp", "--epochs", "1", "-o", "r.json", code=2)
        self.assertIn("mlp reads sparse features, but the training data have images of 1x8x8", text)
        text = self.error("train", "--train", "generate:tiny", "--augment", "crop", "--epochs", "1", "-o", "r.json", code=2)
        self.assertIn("--augment: the training data have sparse features alone, expected images", text)

    def test_what_has_the_size_of_images_is_no_text(self):
        for name, record, label in (("cifar10", 3073, 10), ("cifar100", 3074, 20)):
            (self.folder / "bad.bin").write_bytes(bytes([label]) + bytes(record - 1))
            self.assertIn(f"--format {name}", self.error("data", "info", "bad.bin", code=4))

    def test_people_read_it_too(self):
        text = self.run_program("data", "info", IMAGES).stdout
        self.assertIn("1x8x8 bytes: channels, height, width", text)
        self.assertNotIn("nonzeros", text)
        self.assertIn("sice", self.error("data", "info", "generate:images?sice=8", code=2))

    def test_sequences_are_shown_and_not_written(self):
        clips = "generate:video?clips=50&classes=3&size=4&median=9&shortest=2&longest=30"
        text = self.run_program("data", "info", clips).stdout
        self.assertRegex(text, r"numbers of a frame +4\n")
        self.assertRegex(text, r"frames +\d+ in all; [\d.]+ per row \(\d+ to \d+\)")
        self.assertNotIn("nonzeros", text)
        self.assertIn("found sequences", self.error("data", "convert", clips, "clips.hsgd", code=4))
        network = "lstm-video?size=4&units=6&dense=5&classes=3"
        for data, name in ((clips, "r.json"), (clips + "&frames=drawn", "drawn.json")):
            self.run_program("train", "--train", data, "--test", data, "--model", network, "--order", "bucketed", "--batch-size", "8",
                             "--learning-rate", "0.1", "--epochs", "1", "-o", name)
        self.assertEqual(self.result("drawn.json")["summary"]["final"], self.result("r.json")["summary"]["final"])
        data = self.result("r.json")["dataset"]["train"]
        self.assertEqual(data["frame_numbers"], 4)
        self.assertGreater(data["frames"], 100)


if __name__ == "__main__":
    unittest.main()
