"""Start child runs, and submit others, from inside a run."""

from azureml.core import Run, ScriptRunConfig

run = Run.get_context()

for fold in range(3):
    with run.child_run(name=f"fold-{fold}") as child:
        child.log("accuracy", 0.9 + fold / 100)

for alpha in (0.1, 0.5):
    config = ScriptRunConfig(source_directory=".", script="child.py", arguments=["--alpha", alpha])
    run.submit_child(config, tags={"alpha": str(alpha)})

best = max(run.get_children(), key=lambda child: child.get_metrics().get("accuracy", 0))
run.log("best fold", best.name)
