"""The course: notebooks are run, exercises checked, and the site built."""
