/** Submitting a run: a new one, one like an earlier run (`?from=`), or one by a run configuration (`?configuration=`).
 * Other pages name the target or the experiment of a new one (`?target=`, `?experiment=`). */
import { Alert, Button, Group, Menu, Progress, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { IconChevronDown } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { ApiError, api, data, type Schemas } from "@/api/client";
import { queryClient, run as runQuery } from "@/api/queries";
import { useMay } from "@/api/session";
import { Code } from "@/components/code";
import { Confirm } from "@/components/confirm";
import { FormModal } from "@/components/form-modal";
import { Page, Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { useWorkspace } from "@/lib/workspace";
import { environment } from "../environments/queries";
import { commandOf, type Draft, draftOf, EMPTY, pairs, problemsOf, type Spec, specOf } from "./draft";
import { Fields } from "./fields";
import { runConfigurations, snapshotOf } from "./queries";
import { pathsOf, type Source, SourcePicker } from "./source";
import classes from "./submit.module.css";
import { upload } from "./upload";

const W = "/api/v1/workspaces/{workspace}" as const;

export function SubmitPage() {
  const { workspace } = useWorkspace();
  const { from, configuration, target, experiment } = useSearch({ strict: false }) as Record<string, string | undefined>;
  const details = useQuery({ ...runQuery(workspace, from ?? ""), enabled: !!from });
  const snapshot = useQuery({ ...snapshotOf(workspace, from ?? ""), enabled: !!from && !!details.data?.snapshot, retry: false });
  const configurations = useQuery(runConfigurations(workspace));
  const title = from ? "Run it again" : "Submit a run";
  const error = details.error ?? (configuration ? configurations.error : null);
  if (error) return <Page title={title}><Failure error={error} /></Page>;
  const isWaiting = from ? !details.data || (!!details.data.snapshot && snapshot.isLoading) : !!configuration && !configurations.data;
  if (isWaiting) return <Page title={title}><Loading rows={10} /></Page>;
  const known = configurations.data?.run_configurations ?? [];
  const chosen = known.find(({ name }) => name === configuration);
  const earlier = details.data ? earlierSource(details.data, snapshot.data) : null;
  return (
    <SubmitForm
      key={[from, configuration, chosen?.changed_at, target, experiment].join(" ")}
      title={title}
      from={from ?? null}
      earlier={earlier}
      start={details.data ? draftOfRun(details.data) : chosen ? draftOf(chosen.content as Spec) : { ...EMPTY, target: target ?? EMPTY.target, experiment: experiment ?? "" }}
      configurations={known}
      configuration={chosen?.name ?? null}
    />
  );
}

function earlierSource(run: Schemas["RunDetails"], snapshot?: Schemas["SnapshotView"]): Source | null {
  return run.snapshot ? { kind: "run", run: run.id, digest: run.snapshot, paths: snapshot?.files.map(({ path }) => path) ?? null } : null;
}

function draftOfRun(run: Schemas["RunDetails"]): Draft {
  const labels = { experiment: run.experiment, name: run.name };
  const tags = Object.entries(run.tags).map(([key, value]) => `${key}=${value ?? ""}`).join("\n");
  return run.spec ? draftOf(run.spec as Spec, { ...labels, tags }) : { ...EMPTY, ...labels, tags };
}

type FormProps = {
  title: string;
  from: string | null;
  earlier: Source | null;
  start: Draft;
  configurations: Schemas["RunConfigurationView"][];
  configuration: string | null;
};

function SubmitForm({ title, from, earlier, start, configurations, configuration }: FormProps) {
  const { workspace, home } = useWorkspace();
  const navigate = useNavigate();
  const may = useMay();
  const [draft, setDraft] = useState(start);
  const [source, setSource] = useState<Source>(earlier ?? { kind: "none" });
  const [isShown, setShown] = useState(false); // problems are shown after the first try
  const [progress, setProgress] = useState<number | null>(null);
  const [plan, setPlan] = useState("");
  const [key, setKey] = useState(newKey);
  const [stop] = useState(() => new AbortController());
  useEffect(() => () => stop.abort(), [stop]);
  const { data: registered } = useQuery({ ...environment(workspace, draft.registered), enabled: draft.environment === "registered" && !!draft.registered });
  const problems = problemsOf(draft, source.kind === "none" ? null : pathsOf(source));
  const needsFolder = draft.mode === "script" && source.kind === "none";
  const isReady = !Object.keys(problems).length && !needsFolder;

  function change(part: Partial<Draft>) {
    setDraft((old) => ({ ...old, ...part }));
    setKey(newKey()); // another request than the one before
    setPlan("");
  }

  async function body(isPlan: boolean): Promise<Schemas["Submit"]> {
    const spec = specOf(draft, source.kind === "run" ? source.digest : null, registered);
    const files = source.kind === "folder" ? await upload(workspace, source.files, (done, all) => setProgress(all ? done / all : 1), stop.signal) : null;
    return {
      experiment: draft.experiment.trim(),
      type: "azureml.scriptrun",
      spec,
      files: files ?? (isPlan && source.kind === "none" ? [] : null),
      name: draft.name.trim(),
      tags: pairs(draft.tags),
      properties: from ? { rerun_of: from } : {},
      attended: false,
    } as unknown as Schemas["Submit"];
  }

  const send = useMutation({
    mutationFn: async () => {
      const request = await body(false);
      return data(
        api.POST(`${W}/runs`, { params: { path: { workspace }, header: { "Idempotency-Key": key } as never }, body: request }),
      ) as Promise<Schemas["RunView"]>;
    },
    onSuccess: async (made) => {
      await queryClient.invalidateQueries({ queryKey: ["runs", workspace] });
      await navigate({ to: `${home}/runs/${encodeURIComponent(made.id)}` });
    },
    onSettled: () => setProgress(null),
  });
  const look = useMutation({
    mutationFn: async () => data(api.POST(`${W}/plan`, { params: { path: { workspace } }, body: await body(true) })),
    onSuccess: ({ text }) => setPlan(text),
    onSettled: () => setProgress(null),
  });

  return (
    <Page
      title={title}
      description={from ? `The same as run ${from}, with what you change here.` : "The script runs on the target with its own copy of the folder."}
      actions={<Configurations workspace={workspace} known={configurations} chosen={configuration} draft={draft} />}
    >
      <form
        className={classes.columns}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          setShown(true);
          if (isReady) send.mutate();
        }}
      >
        <Stack gap="md" miw={0}>
          <Section title="Source">
            <div className={classes.body}>
              <SourcePicker source={source} earlier={earlier} onChange={(next) => (setSource(next), setKey(newKey()), setPlan(""))} />
              {isShown && needsFolder && <Text size="sm" c="var(--studio-bad)">Choose the folder with the script.</Text>}
            </div>
          </Section>
          <Fields workspace={workspace} draft={draft} change={change} problems={isShown ? problems : {}} paths={pathsOf(source)} />
        </Stack>
        <Stack gap="md" miw={0} className={classes.side}>
          <Section title="Submit">
            <Stack gap="sm" p="md">
              {progress !== null && progress < 1 && <Progress value={progress * 100} aria-label="Uploaded" />}
              {(send.error ?? look.error) && <SubmitError error={send.error ?? look.error} />}
              {isShown && !isReady && (
                <Alert color="red" role="alert">
                  Some fields need your attention.
                </Alert>
              )}
              <Group gap="xs">
                <Button type="submit" size="sm" loading={send.isPending} disabled={!may("runs.submit")}>
                  Submit
                </Button>
                <Button
                  variant="default"
                  size="sm"
                  loading={look.isPending}
                  onClick={() => {
                    setShown(true);
                    if (isReady) look.mutate();
                  }}
                >
                  Show the plan
                </Button>
              </Group>
            </Stack>
          </Section>
          <Section title="The same by command">
            <Stack gap="xs" p="md">
              <Code text={commandOf(draft, workspace, source.kind === "run" ? from : null)} label="Copy the command" />
            </Stack>
          </Section>
          {plan && (
            <Section title="Plan">
              <Stack gap="xs" p="md">
                <Text size="sm" c="dimmed">
                  What the target is asked to do. Nothing was sent there.
                </Text>
                <Code text={plan} label="Copy the plan" />
              </Stack>
            </Section>
          )}
        </Stack>
      </form>
    </Page>
  );
}

const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((each) => each.toString(16)).join("");

function SubmitError({ error }: { error: unknown }) {
  if (error instanceof ApiError && error.code === "snapshot_incomplete") {
    const gone = new ApiError(error.status, error.code, "The files of that run are no longer kept.", "Choose a folder with them.");
    return <Failure error={gone} />;
  }
  return <Failure error={error} />;
}

type ConfigurationsProps = {
  workspace: string;
  known: Schemas["RunConfigurationView"][];
  chosen: string | null;
  draft: Draft;
};

/** The run configurations of the workspace: begin with one, save this form as one, delete one. */
function Configurations({ workspace, known, chosen, draft }: ConfigurationsProps) {
  const navigate = useNavigate();
  const may = useMay();
  const [isSaving, setSaving] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const [name, setName] = useState(chosen ?? "");
  const { data: registered } = useQuery({ ...environment(workspace, draft.registered), enabled: isSaving && draft.environment === "registered" && !!draft.registered });
  const one = `${W}/run-configurations/{name}` as const;
  const renew = () => queryClient.invalidateQueries({ queryKey: ["run-configurations", workspace] });
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} />}>
            {chosen ? `Configuration ${chosen}` : "Run configurations"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {known.map((each) => (
            <Menu.Item key={each.name} onClick={() => void navigate({ to: ".", search: { configuration: each.name } as never })}>
              {each.name}
              <Text size="xs" c="dimmed">
                {each.content.target}: {each.content.script ?? each.content.command.join(" ")}
              </Text>
            </Menu.Item>
          ))}
          {known.length > 0 && <Menu.Divider />}
          {may("runs.submit") && <Menu.Item onClick={() => setSaving(true)}>Save this form as a configuration</Menu.Item>}
          {chosen && may("runs.submit") && (
            <Menu.Item c="var(--studio-bad)" onClick={() => setDeleting(true)}>
              Delete {chosen}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {isSaving && (
        <FormModal
          opened
          onClose={() => setSaving(false)}
          title="Save as a run configuration"
          action={known.some((each) => each.name === name) ? "Replace" : "Save"}
          isReady={/^[a-zA-Z0-9][\w.-]{0,63}$/.test(name)}
          submit={async () => {
            const { snapshot: _, ...content } = specOf(draft, null, registered);
            await api.PUT(one, { params: { path: { workspace, name } }, body: { content } as never });
            await renew();
            notifications.show({ message: `The run configuration ${name} is saved.`, color: "green" });
          }}
        >
          <TextInput
            label="Name"
            description="Letters, digits, '_', '-' and '.'. It is for everybody in the workspace; the files are not part of it."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            data-autofocus
            required
          />
        </FormModal>
      )}
      {chosen && (
        <Confirm
          opened={isDeleting}
          onClose={() => setDeleting(false)}
          title={`Delete the run configuration ${chosen}?`}
          action="Delete"
          run={async () => {
            await api.DELETE(one, { params: { path: { workspace, name: chosen } } });
            await renew();
            await navigate({ to: ".", search: {} });
          }}
        >
          Runs that were submitted by it stay as they are.
        </Confirm>
      )}
    </>
  );
}
