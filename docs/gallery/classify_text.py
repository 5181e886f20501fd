# # Classify text features
#
# Hashing turns the words of a text into numbers. It needs no vocabulary, so it works on a stream.
# This script separates sentences about networks from sentences about numbers and data.

# %%
# The texts are docstrings of Python's standard library, from its modules for the internet and from
# its modules for numbers and data. Their order is random.

import ast
import sysconfig
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

import omkl

ROWS = 3_000

SUBJECTS = {
    "internet": "asyncio email http imaplib poplib smtplib socket socketserver ssl urllib xmlrpc "
    "ftplib wsgiref",
    "data": "_pydecimal fractions statistics random numbers collections datetime calendar csv "
    "json sqlite3 heapq pickle _pydatetime configparser copy bisect",
}
library = Path(sysconfig.get_path("stdlib"))


def sentences(module: str) -> list[str]:
    """The first paragraphs of all docstrings of a module, without those of its tests."""
    place = library / module
    files = sorted(place.rglob("*.py")) if place.is_dir() else [library / f"{module}.py"]
    found = []
    for path in files:
        if path.is_file() and "test" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    text = (ast.get_docstring(node) or "").partition("\n\n")[0]
                    found += [" ".join(text.split())] if len(text) > 25 else []
    return found


pairs = [
    (text, subject)
    for subject, modules in SUBJECTS.items()
    for module in modules.split()
    for text in sentences(module)
]
order = np.random.default_rng(5).permutation(len(pairs))[:ROWS]
texts = [pairs[k][0] for k in order]
subjects = np.array([pairs[k][1] for k in order])
print(f"{len(texts)} texts; {np.mean(subjects == 'internet'):.0%} are about the internet")

# %%
# A text becomes 256 counts of hashed words. The classifier has nothing to tune. It predicts a class
# and its probability before the class is known.

hashing = HashingVectorizer(n_features=256, stop_words="english", norm="l2")
X = hashing.transform(texts).toarray()
learner = omkl.learner("auto", inputs=X.shape[1], classes=list(SUBJECTS))

blocks = np.array_split(np.arange(len(texts)), 20)
right, sure = np.zeros(len(texts), bool), np.zeros(len(texts))
for block in blocks:
    sure[block] = learner.predict_proba(X[block]).max(axis=1)
    right[block] = learner.partial_fit(X[block], subjects[block]).y_hat == subjects[block]
late = slice(len(texts) // 2, None)
print(f"right: {right.mean():.3f}, in the second half {right[late].mean():.3f}")

# %%
# The larger the predicted probability, the more often the classifier is right.

edges = np.quantile(sure[late], [0, 0.25, 0.5, 0.75, 1])
which = np.digitize(sure[late], edges[1:-1])
points = [(sure[late][which == k].mean(), right[late][which == k].mean()) for k in set(which)]
fig, ax = plt.subplots(figsize=(4.6, 3.4))
ax.plot([0.5, 1], [0.5, 1], color="0.5", lw=0.8, ls=":")
ax.plot(*zip(*sorted(points), strict=True), "o-", color="C0")
labels = ax.set(xlabel="predicted probability", ylabel="share of correct predictions")
