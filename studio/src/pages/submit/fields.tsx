/** The fields of a submit: what runs, where, with which packages and resources. */
import { Autocomplete, Collapse, MultiSelect, NumberInput, SegmentedControl, Select, Textarea, TextInput, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { experiments, targets } from "@/api/queries";
import { useMay } from "@/api/session";
import { Section } from "@/components/page";
import { healthOf } from "@/lib/health";
import { environments } from "../environments/queries";
import { secrets } from "../secrets/queries";
import type { Draft } from "./draft";
import classes from "./submit.module.css";

type Props = {
  workspace: string;
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Partial<Record<keyof Draft, string>>;
  paths: string[] | null;
};

type Text = "script" | "arguments" | "command" | "name" | "experiment" | "interpreter" | "pythonVersion" | "pip" | "image" | "variables" | "tags";
type Count = "nodes" | "cpus" | "gpus" | "memoryGb" | "minutes" | "priority" | "retries";

export function Fields({ workspace, draft, change, problems, paths }: Props) {
  const text = (key: Text) => ({
    value: draft[key],
    error: problems[key],
    onChange: (event: { currentTarget: { value: string } }) => change({ [key]: event.currentTarget.value }),
  });
  const typed = (key: Text) => ({ value: draft[key], error: problems[key], onChange: (value: string) => change({ [key]: value }) });
  const count = (key: Count) => ({
    value: draft[key],
    onChange: (value: string | number) => change({ [key]: value === "" ? "" : Number(value) }),
    min: 0,
  });
  const { data: known } = useQuery(experiments(workspace));
  return (
    <>
      <Section title="What runs">
        <div className={classes.body}>
          <SegmentedControl
            aria-label="Script or command"
            size="xs"
            w="fit-content"
            data={[
              { value: "script", label: "Script" },
              { value: "command", label: "Command" },
            ]}
            value={draft.mode}
            onChange={(mode) => change({ mode: mode as Draft["mode"] })}
          />
          {draft.mode === "script" ? (
            <>
              <Autocomplete
                label="Script"
                description="Its path in the folder."
                placeholder="train.py"
                data={(paths ?? []).filter((path) => /\.(py|sh)$/.test(path)).slice(0, 200)}
                required
                {...typed("script")}
              />
              <Textarea label="Arguments" description="As on a command line; quotation marks keep a text together." placeholder="--alpha 0.1" autosize minRows={1} {...text("arguments")} />
            </>
          ) : (
            <Textarea
              label="Command"
              description="Executed as it is, without a shell; {python} is the interpreter of the environment."
              placeholder="torchrun train.py --epochs 3"
              autosize
              minRows={1}
              required
              {...text("command")}
            />
          )}
          <div className={classes.row}>
            <Autocomplete label="Experiment" placeholder="demo" required data={known?.experiments.map(({ name }) => name) ?? []} {...typed("experiment")} />
            <TextInput label="Name of the run" placeholder="none" {...text("name")} />
          </div>
        </div>
      </Section>
      <Section title="Where">
        <div className={classes.body}>
          <TargetSelect workspace={workspace} draft={draft} change={change} error={problems.target} />
          <div className={classes.row}>
            <NumberInput label="Nodes" placeholder="1" allowDecimal={false} {...count("nodes")} />
            <NumberInput label="Cores" placeholder="the target's default" {...count("cpus")} />
            <NumberInput label="GPUs" placeholder="none" allowDecimal={false} {...count("gpus")} />
            <NumberInput label="Memory" placeholder="the target's default" suffix=" GB" {...count("memoryGb")} />
          </div>
        </div>
      </Section>
      <EnvironmentFields workspace={workspace} draft={draft} change={change} problems={problems} text={text} />
      <More workspace={workspace} draft={draft} change={change} text={text} count={count} />
    </>
  );
}

type SelectProps = { workspace: string; draft: Draft; change: Props["change"]; error?: string };

function TargetSelect({ workspace, draft, change, error }: SelectProps) {
  const { data: found } = useQuery(targets(workspace));
  const chosen = found?.targets.find(({ name }) => name === draft.target);
  const health = chosen && healthOf(chosen);
  return (
    <Select
      label="Target"
      required
      searchable
      error={error}
      description={
        chosen && health
          ? [chosen.kind, health.label, `${chosen.active_runs} active`, `${chosen.queued_runs} queued`].join(" · ")
          : undefined
      }
      data={found?.targets.map(({ name, kind }) => ({ value: name, label: name === kind ? name : `${name} (${kind})` })) ?? [draft.target]}
      value={draft.target}
      onChange={(target) => target && change({ target })}
    />
  );
}

type TextProps = (key: Text) => { value: string; error: string | undefined; onChange: (event: { currentTarget: { value: string } }) => void };

function EnvironmentFields({ workspace, draft, change, problems, text }: Omit<Props, "paths"> & { text: TextProps }) {
  const { data: registered } = useQuery(environments(workspace));
  const kept = draft.base?.environment;
  return (
    <Section title="Environment">
      <div className={classes.body}>
        <Select
          label="Python and packages"
          data={[
            ...(draft.environment === "kept" || (kept && !kept.interpreter) ? [{ value: "kept", label: `As before${kept?.name ? `: ${kept.name}` : ""}` }] : []),
            { value: "python", label: "The Python that is there" },
            { value: "packages", label: "Packages, built once" },
            { value: "registered", label: "A registered environment" },
            { value: "image", label: "A container image" },
          ]}
          value={draft.environment}
          onChange={(value) => change({ environment: value as Draft["environment"] })}
        />
        {draft.environment === "python" && <TextInput label="Interpreter" description="A name or a path on the target." {...text("interpreter")} />}
        {draft.environment === "packages" && (
          <>
            <Textarea label="pip packages" description="One on each line, as in requirements.txt." placeholder={"numpy==2.0\nscikit-learn"} autosize minRows={3} {...text("pip")} />
            <TextInput label="Version of Python" placeholder="the target's default" {...text("pythonVersion")} />
          </>
        )}
        {draft.environment === "registered" && (
          <Select
            label="Registered environment"
            placeholder={registered?.environments.length ? "Choose one" : "There is none yet"}
            error={problems.registered}
            data={registered?.environments.map(({ name }) => name) ?? []}
            value={draft.registered || null}
            onChange={(name) => change({ registered: name ?? "" })}
          />
        )}
        {draft.environment === "image" && <TextInput label="Image" placeholder="python:3.12-slim" {...text("image")} />}
      </div>
    </Section>
  );
}

type MoreProps = Pick<Props, "workspace" | "draft" | "change"> & { text: TextProps; count: (key: Count) => object };

function More({ workspace, draft, change, text, count }: MoreProps) {
  const may = useMay();
  const { data: known } = useQuery({ ...secrets(workspace), enabled: may("secrets.use") });
  const [isOpen, setOpen] = useState(!!(draft.variables || draft.secrets.length || draft.tags || draft.minutes || draft.retries));
  return (
    <Section
      title="More"
      actions={
        <UnstyledButton type="button" onClick={() => setOpen(!isOpen)} aria-expanded={isOpen} aria-controls="more" fz="sm" c="var(--mantine-color-anchor)">
          {isOpen ? "Hide" : "Variables, secrets, tags, time limit …"}
        </UnstyledButton>
      }
    >
      <Collapse expanded={isOpen} id="more">
        <div className={classes.body}>
          <Textarea label="Variables" description="One KEY=VALUE on each line, for the script's environment." autosize minRows={2} {...text("variables")} />
          {may("secrets.use") && (
            <MultiSelect
              label="Secrets"
              description="Those that only runs that name them may read."
              data={known?.secrets.map(({ name }) => name) ?? draft.secrets}
              value={draft.secrets}
              onChange={(names) => change({ secrets: names })}
              searchable
            />
          )}
          <Textarea label="Tags" description="One KEY=VALUE on each line." autosize minRows={2} {...text("tags")} />
          <div className={classes.row}>
            <NumberInput label="Time limit" suffix=" minutes" placeholder="none" {...count("minutes")} />
            <NumberInput label="Priority" description="Higher goes first." placeholder="0" allowDecimal={false} {...count("priority")} min={undefined} />
            <NumberInput label="Retries" placeholder="0" allowDecimal={false} {...count("retries")} />
          </div>
        </div>
      </Collapse>
    </Section>
  );
}
