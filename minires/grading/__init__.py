"""The course's machinery: what lessons there are, grading that names the mistake, and a copy to work in."""

from minires.grading.answer import Answer, LearnerError, NotAttempted, grades
from minires.grading.compare import Case
from minires.grading.course import Course, Exercise, Lesson, find_course, shipped
from minires.grading.diagnose import Diagnosed, Finding, Mistake
from minires.grading.install import Copied, init_course
from minires.grading.progress import Progress
from minires.grading.report import print_grade, print_grades
from minires.grading.runner import STATUSES, Grade, grade

__all__ = [
    "STATUSES", "Answer", "Case", "Copied", "Course", "Diagnosed", "Exercise", "Finding", "Grade",
    "LearnerError", "Lesson", "Mistake", "NotAttempted", "Progress", "find_course", "grade", "grades",
    "init_course", "print_grade", "print_grades", "shipped",
]  # fmt: skip
