"""The faults that lint_comments.py finds, and the lines that it leaves alone."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import lint_comments


class Comments(unittest.TestCase):
    def test_openings_and_lengths(self):
        for text, count in (("// Of a batch.\n", 1), ("int a;  // who asks\nint b;  // Who asks\n", 1),
                            ("// Those of a rank,\n\n// What others see.\n", 2), ("  /// What a rank sent.\n", 1),
                            # The word goes on with a sentence, or is no comment.
                            ("// The parts\n// Of which one is sent.\n", 0), ('const char* text = "// Of a batch";\n', 0),
                            ("// A rank.\n//\n// Who asks first.\n", 1), ("// Often, or whatever.\n", 0),
                            # Every sentence, on whichever line it begins.
                            ("// A rank. Who asks?\n", 1), ("// A rank.\n// Who asks?\n", 1), ("// A rank. Who\n// What is\n", 0),
                            ("// " + "x" * 97 + "\n", 0), ("// " + "x" * 98 + "\n", 1), ("int " + "x" * 200 + ";\n", 0),
                            ("// \u03b1" + "x" * 96 + "\n", 0), ("// https://" + "x" * 200 + "\n", 0)):
            with self.subTest(text[:40]):
                self.assertEqual(len(lint_comments.problems("a.cpp", text)), count)

    def test_scripts_and_specifications(self):
        for text, count in (("# Of a batch.\n", 1), ("x = 1\n\n# Who asks\n", 1), ('"""What a rank sent."""\n', 1),
                            ("# The parts\n# Of which one is sent.\n", 0), ('text = "# Of a batch"\n', 0), ("# " + "x" * 120 + "\n", 0)):
            for name in ("a.py", "a.sh", "a.toml", "tests/CMakeLists.txt"):
                with self.subTest(name + " " + text[:40]):
                    self.assertEqual(len(lint_comments.problems(name, text)), count)

    def test_errors_of_a_header_are_sentences(self):
        for text, count in (("// Errors: usage, no name.\n", 1), ("f();  // Errors (data): no file.\n", 1), ("// Errors  : usage.\n", 1),
                            ("// Throws Error(usage) if there is no name.\n", 0), ("// Errors of a rank: none.\n", 0)):
            for name, expected in (("a.hpp", count), ("a.cuh", count), ("a.cpp", 0), ("a.py", 0)):
                with self.subTest(name + " " + text[:40]):
                    self.assertEqual(len(lint_comments.problems(name, text)), expected)

    def test_a_message_names_the_line(self):
        self.assertEqual(lint_comments.problems("a.cpp", "int a;\n// Who asks.\n"),
                         ['a.cpp:2: found a sentence that opens with "Who", expected its subject'])
