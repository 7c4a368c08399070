"""--mllog and --tensorboard: a run in the formats of MLPerf and of TensorBoard."""

import json
import math
import struct

from program import ProgramTest

RUN = ["--algorithm", "ssgd", "--workers", "2", "--max-samples", "1920", "--evaluate-every", "640", "--seed", "3",
       "--learning-rate", "0.5", "--schedule", "step", "--step-epochs", "0.4", "--step-factor", "0.5"]


def crc32c(data):
    """Castagnoli's polynomial, reflected, bit by bit: as in RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The payloads of a file of TFRecords, whose sums are right."""
    found = []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        assert struct.unpack_from("<I", data, 8) == (masked(data[:8]),)
        payload = data[12:12 + length]
        assert struct.unpack_from("<I", data, 12 + length) == (masked(payload),)
        found.append(payload)
        data = data[16 + length:]
    return found


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of every field of a protobuf message."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(kind) or varint(data, at)
            value, at = data[at:at + size], at + size
        found.append((key >> 3, value))
    return found


def event(data):
    """(wall_time, step, file_version, scalars) of an Event."""
    message = dict(fields(data))
    scalars = {}
    for number, value in fields(message.get(5, b"")):
        assert number == 1
        scalar = dict(fields(value))
        scalars[scalar[1].decode()] = struct.unpack("<f", scalar[2])[0]
    return struct.unpack("<d", message[1])[0], message.get(2, 0), message.get(3, b"").decode(), scalars


class EventFiles(ProgramTest):
    def events(self, folder):
        return [event(data) for data in records((self.folder / folder / "events.out.tfevents.hetsgd").read_bytes())]

    def test_every_point_of_the_curve_is_an_event(self):
        (self.folder / "tb").mkdir()
        for options in (["--cluster", "sim"], ["--cluster", "threads", "--devices", "cpu:1"]):
            self.train("r.json", *RUN, *options, "--target", "p1>=0", "--tensorboard", "tb", "--overwrite")
            curve = self.result("r.json")["curve"]
            first, *events = self.events("tb")
            self.assertEqual(first[1:], (0, "brain.Event:2", {}))
            self.assertEqual([step for _, step, _, _ in events], [0, 640, 1280, 1920])
            time = "time_s" if options[1] == "sim" else "wall_s"
            for i, (wall_time, _, version, scalars) in enumerate(events):
                point = curve[i]
                self.assertEqual(version, "")
                self.assertAlmostEqual(wall_time - events[0][0], point[time] - curve[0][time], places=5)
                rate = 0.5 if point["epoch_num"] < 0.4 else 0.25
                expected = {"test/loss": point["test_loss"], "test/p1": point["p1"], "test/p3": point["p3"],
                            "test/p5": point["p5"], "learning_rate": rate}
                if i > 0:
                    expected["train/loss"] = point["train_loss"]
                    expected["samples_per_s"] = 640 / (point["time_s"] - curve[i - 1]["time_s"])
                self.assertEqual(scalars.keys(), expected.keys())
                for tag, value in expected.items():
                    self.assertTrue(math.isclose(scalars[tag], value, rel_tol=1e-6), (tag, scalars[tag], value))

    def test_an_event_file_is_not_replaced_unasked(self):
        (self.folder / "tb").mkdir()
        self.train("a.json", *RUN, "--tensorboard", "tb")
        kept = (self.folder / "tb" / "events.out.tfevents.hetsgd").read_bytes()
        self.check_refusal(self.train("b.json", *RUN, "--tensorboard", "tb", code=2).stderr, "tb/events.out.tfevents.hetsgd")
        self.assertEqual((self.folder / "tb" / "events.out.tfevents.hetsgd").read_bytes(), kept)
        self.check_refusal(self.train("b.json", *RUN, "--tensorboard", "no", code=2).stderr, ("", "no"), True)
        self.assertFalse((self.folder / "b.json").exists())


class MlLogs(ProgramTest):
    def log(self, name):
        lines = (self.folder / name).read_text().splitlines()
        entries = []
        for line in lines:
            self.assertTrue(line.startswith(":::MLLOG "), line)
            entries.append(json.loads(line.removeprefix(":::MLLOG ")))
            self.assertEqual(set(entries[-1]), {"namespace", "time_ms", "event_type", "key", "value", "metadata"})
        return entries

    def test_a_run_in_the_words_of_mlperf(self):
        for options in (["--cluster", "sim"], ["--cluster", "threads", "--devices", "cpu:1"]):
            self.train("r.json", *RUN, *options, "--mllog", "r.log", "--target", "p1>=0.01", "--overwrite")
            result, log = self.result("r.json"), self.log("r.log")
            values = {entry["key"]: entry["value"] for entry in log if entry["event_type"] == "POINT_IN_TIME"}
            self.assertEqual(values["submission_benchmark"], "tiny")
            self.assertEqual((values["seed"], values["global_batch_size"], values["opt_base_learning_rate"]),
                             (3, 128, 0.5))  # two workers with 64 samples each
            self.assertEqual((values["train_samples"], values["samples_count"]),
                             (result["dataset"]["train"]["rows"], 1920))
            times = [entry["time_ms"] for entry in log]
            self.assertEqual(times, sorted(times))
            order = [entry["key"] for entry in log if entry["event_type"] != "POINT_IN_TIME"]
            measured = ["eval_start", "eval_stop"]
            self.assertEqual(order, ["init_start", "init_stop", "run_start"] + measured +
                             3 * (["block_start", "block_stop"] + measured) + ["run_stop"])
            begin = next(entry["time_ms"] for entry in log if entry["key"] == "run_start")
            found = [entry for entry in log if entry["key"] == "eval_accuracy"]
            time = "time_s" if options[1] == "sim" else "wall_s"  # mlperf_s, where there is one
            for entry, point in zip(found, result["curve"], strict=True):
                self.assertEqual(entry["value"], point["p1"])
                self.assertEqual(entry["metadata"], {"epoch_num": point["epoch_num"], "metric": "p1",
                                                     "samples_count": point["samples_count"]})
                self.assertLessEqual(abs(entry["time_ms"] - begin - 1e3 * point[time]), 1)
            self.assertEqual(log[-1]["metadata"], {"samples_count": 1920, "status": "success"})

    def test_a_missed_target_is_no_success(self):
        self.train("r.json", *RUN, "--mllog", "r.log", "--target", "p1>=1")
        self.assertEqual(self.log("r.log")[-1]["metadata"]["status"], "aborted")
