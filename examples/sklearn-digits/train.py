"""Train a linear classifier of handwritten digits with scikit-learn; about two seconds."""

import argparse
import pathlib

import joblib
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.model_selection import train_test_split

from windlass import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.001, help="how strongly large weights are punished")
parser.add_argument("--epochs", type=int, default=15)
args = parser.parse_args()

run = Run.get_context()
digits = load_digits()
train_x, test_x, train_y, test_y = train_test_split(digits.data / 16, digits.target, test_size=0.3, random_state=0)
print(f"{len(train_x)} images to learn from, {len(test_x)} to test with")

model = SGDClassifier(loss="log_loss", alpha=args.alpha, random_state=0)
for epoch in range(1, args.epochs + 1):
    model.partial_fit(train_x, train_y, classes=digits.target_names)
    loss = log_loss(test_y, model.predict_proba(test_x))
    accuracy = model.score(test_x, test_y)
    run.log("loss", loss)
    run.log("accuracy", accuracy)
    print(f"epoch {epoch:2}  loss {loss:.4f}  accuracy {accuracy:.4f}")

run.log("alpha", args.alpha)
run.log_confusion_matrix(
    "confusion",
    {
        "schema_type": "confusion_matrix",
        "schema_version": "v1",
        "data": {
            "class_labels": [str(digit) for digit in digits.target_names],
            "matrix": confusion_matrix(test_y, model.predict(test_x)).tolist(),
        },
    },
)

outputs = pathlib.Path("outputs")
outputs.mkdir(exist_ok=True)
joblib.dump(model, outputs / "model.pkl")
print("saved outputs/model.pkl")
