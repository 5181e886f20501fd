# # Serve a model
#
# A learner predicts and learns behind HTTP, is saved in one file, and continues after its process
# was killed. The second half does the same without HTTP, as a loop over a log of events. In both,
# targets arrive late.

# %%
# ## The service
#
# A target may arrive at any time, together with the inputs of its row. The service saves the model
# after every 50 targets, with the predictions whose targets have not arrived yet. It replaces the
# file as a whole, so the file is complete whenever the process is killed.

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import omkl

ROWS = 1_000

service = """
import math
import threading
from pathlib import Path

import omkl
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

MODEL, EVERY = Path("model.npz"), 50
app, lock = FastAPI(), threading.Lock()
if MODEL.exists():
    learner = omkl.load_learner(MODEL)
else:
    learner = omkl.learner("auto", interval=0.9, max_pending=10_000)


class Row(BaseModel):
    inputs: dict[str, float | str | None]


class Learned(Row):
    y: float


@app.post("/predict")
def predict(row: Row):
    with lock:
        try:
            y_hat = learner.predict_one(row.inputs)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        low, high = learner.interval
    return {"y_hat": y_hat, "interval": None if math.isnan(low) else [low, high]}


@app.post("/learn")
def learn(row: Learned):
    with lock:
        try:
            learner.learn_one(row.inputs, row.y)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        if learner.n_rows % EVERY == 0:
            learner.save(MODEL)
    return {"learned": learner.n_rows}


@app.get("/state")
def state():
    return {"learned": learner.n_rows}
"""
Path("service.py").write_text(service)

# %%
# Start the service with `uvicorn service:app`.

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]


def call(path, content=None):
    """The answer of the service to a request."""
    data = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def started():
    """The process of the service, once it answers."""
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(PORT)]
    process = subprocess.Popen([*command, "--log-level", "warning"])
    for _ in range(600):
        try:
            call("state")
            return process
        except urllib.error.URLError:
            time.sleep(0.1)
    raise RuntimeError("the service does not answer")


# %%
# ## Predict, learn, be killed, go on
#
# The rows are orders of a shop, and the target is the time of delivery. It is known twenty rows
# later.

rng = np.random.default_rng(0)
km, town = rng.uniform(1, 20, ROWS), rng.choice(["north", "south"], ROWS)
minutes = 10 + 3 * km + 15 * (town == "south") + rng.normal(0, 2, ROWS)
rows = [{"km": float(k), "town": str(t)} for k, t in zip(km, town, strict=True)]
DELAY, KILLED = 20, ROWS // 2

process, predicted = started(), []
for t in range(KILLED):
    predicted.append(call("predict", {"inputs": rows[t]})["y_hat"])
    if t >= DELAY:
        call("learn", {"inputs": rows[t - DELAY], "y": float(minutes[t - DELAY])})
before = call("state")
process.send_signal(signal.SIGKILL)
process.wait()

process = started()
after = call("state")
print("before the kill ", before)
print("after the start ", after)

# %%
# The service has lost the targets after its last save, and the client sends them again.

first = after["learned"] + DELAY
predicted = predicted[:first]
for t in range(first, ROWS):
    predicted.append(call("predict", {"inputs": rows[t]})["y_hat"])
    if t >= DELAY:
        call("learn", {"inputs": rows[t - DELAY], "y": float(minutes[t - DELAY])})
state = call("state")
process.terminate()
process.wait()
errors = np.abs(np.array(predicted) - minutes)
print(state, f"mean error of the last half: {errors[ROWS // 2 :].mean():.1f} minutes")

# %%
# ## A loop over a log
#
# A topic of Kafka, or another log, delivers events by their offsets. The loop saves the model under
# the offset and then commits the offset. So each committed offset has its model, even if the loop
# crashes. In this script the log is a list, and the loop ends in the middle.

log = []
for t in range(ROWS):
    log.append({"kind": "order", "id": t, "inputs": rows[t]})
    if t >= DELAY:
        log.append({"kind": "delivered", "inputs": rows[t - DELAY], "y": float(minutes[t - DELAY])})


def consume(folder, end):
    """Read the log from the committed offset to ``end``; what was predicted, by id."""
    committed = folder / "offset"
    start = int(committed.read_text()) if committed.exists() else 0
    learner = omkl.learner("auto", max_pending=1_000)
    if start:
        learner = omkl.load_learner(folder / f"{start}.npz")
    answers = {}
    for offset in range(start, end):
        event = log[offset]
        if event["kind"] == "order":
            answers[event["id"]] = learner.predict_one(event["inputs"])
        else:
            learner.learn_one(event["inputs"], event["y"])
        if (offset + 1) % 100 == 0:  # with Kafka: consumer.commit() after the save
            learner.save(folder / f"{offset + 1}.npz")
            committed.write_text(str(offset + 1))
    return answers


crashing, steady = Path("crashing"), Path("steady")
for folder in (crashing, steady):
    folder.mkdir(exist_ok=True)
answers = consume(crashing, len(log) // 2 + 37)  # it crashes 37 events after the half
answers |= consume(crashing, len(log))
same = answers == consume(steady, len(log))
print(f"{len(log):,} events; the same predictions as without the crash: {same}")

# %%
# The figure shows the error of the service over time. The dotted line marks the kill.

window = max(ROWS // 40, 5)
curve = np.convolve(errors, np.ones(window) / window, mode="valid")
fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(np.arange(len(curve)) + window, curve, color="C0")
ax.axvline(KILLED, color="0.3", lw=0.8, ls=":")
ax.set(xlabel="row", ylabel=f"mean error of {window} rows, minutes", ylim=(0, None))
limits = ax.set_xlim(0, ROWS)
