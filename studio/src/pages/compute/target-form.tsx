/** The form that attaches or creates a target of a kind, from the schemas of the kind. */
import { Alert, Anchor, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";

import { Code, Equivalent } from "@/components/code";
import { Section } from "@/components/page";
import { command, pythonCode, type Schema, SchemaForm } from "@/components/schema-form";
import { Failure } from "@/components/states";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { formatInputs } from "./format-inputs";
import { IdentityCard } from "./identity-card";
import { addTarget, type Kind, probe, renewTargets, workspaceCredential } from "./queries";
import { SlotsInput } from "./slots-input";
import { longNameNote, useDraft } from "./use-draft";

type Probed = Awaited<ReturnType<typeof probe>>;
type Added = Awaited<ReturnType<typeof addTarget>>;

export function TargetForm({ kind }: { kind: Kind }) {
  const { workspace, home } = useWorkspace();
  const navigate = useNavigate();
  const draft = useDraft(workspace, kind);
  const form = useRef<HTMLFormElement>(null);
  const [slots, setSlots] = useState<number | null>(null);
  const [probed, setProbed] = useState<Probed | null>(null);
  const [isCompared, setCompared] = useState(false);
  const isAttached = kind.is_attachable;
  const verb = isAttached ? "Attach" : "Create";

  const connect = useMutation({
    mutationFn: () => probe(workspace, kind.kind, draft.config),
    onSuccess: (found) => (found.identity ? setProbed(found) : add.mutate(null)),
    onError: draft.refuse,
  });
  const add = useMutation({
    mutationFn: (pinned: Probed | null): Promise<Added> =>
      addTarget(workspace, {
        name: draft.name,
        kind: kind.kind,
        config: draft.config,
        credentials: draft.credentials,
        slots,
        exist_ok: false,
        pin: pinned?.identity?.pin ?? null,
        pin_confirmed: pinned !== null && isCompared,
      }),
    onError: draft.refuse,
    onSuccess: (target) => {
      void renewTargets(workspace);
      if (!target.notes.length) void navigate({ to: `${home}/compute/${encodeURIComponent(target.name)}` });
    },
  });

  function forgetIdentity() {
    setProbed(null);
    setCompared(false);
    connect.reset();
    add.reset();
  }

  function submit() {
    const invalid = draft.attempt();
    if (invalid !== undefined) {
      // After the messages are drawn: the first field that has one.
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    } else if (isAttached && !probed) connect.mutate();
    else add.mutate(probed);
  }

  const equivalent = {
    kind: kind.kind,
    name: draft.name,
    workspace,
    isAttached,
    fields: draft.fields,
    secrets: draft.secrets,
    values: draft.values,
    given: Object.keys(draft.credentials),
    files: draft.files,
    slots,
    fingerprint: isCompared ? (probed?.identity?.shown_as ?? "") : "",
    pin: isCompared ? (probed?.identity?.pin ?? "") : "",
    python: (kind.config_schema as Schema).python,
  };
  const { text, missing } = command(equivalent);
  if (add.data?.notes.length) return <Attached target={add.data} home={home} />;
  const failure = connect.error ?? add.error;
  return (
    <div className={classes.split}>
      <form
        ref={form}
        noValidate
        aria-label={kind.title}
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Stack gap="lg">
          <TextInput
            label="Name"
            description="2 to 16 letters, digits and hyphens, starting with a letter. Runs name it as their target."
            withAsterisk
            value={draft.name}
            onChange={(event) => draft.setName(event.currentTarget.value)}
            onBlur={() => draft.touch("name")}
            error={draft.errors.name}
            placeholder={`my-${kind.kind}`}
            maxLength={64}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
          />
          {longNameNote(draft.name) && (
            <Text size="sm" c="var(--studio-waiting)" mt={-14} role="status">
              {longNameNote(draft.name)}
            </Text>
          )}
          <SchemaForm
            fields={draft.all}
            values={draft.values}
            onChange={(field, value) => {
              draft.set(field, value);
              if (draft.fields.some(({ name }) => name === field)) forgetIdentity();
            }}
            onFile={draft.setFile}
            onBlur={draft.touch}
            errors={draft.errors}
            inputs={formatInputs(kind.is_this_computer)}
          />
          {kind.has_workspace_credential && <WorkspaceCredential kind={kind.kind} />}
          <SlotsInput slots={slots} onChange={setSlots} />
          {draft.whole && (
            <Alert color="yellow" variant="light">
              {draft.whole}
            </Alert>
          )}
          {probed?.identity && (
            <IdentityCard identity={probed.identity} endpoint={probed.endpoint} isCompared={isCompared} onCompared={setCompared} />
          )}
          {failure && <Failure error={failure} />}
          <Group gap="sm">
            {isAttached && !probed ? (
              <Button type="submit" loading={connect.isPending || add.isPending}>
                Connect
              </Button>
            ) : (
              <Button type="submit" loading={add.isPending} disabled={isAttached && !isCompared}>
                {verb}
              </Button>
            )}
            {probed && !isCompared && (
              <Button variant="subtle" loading={add.isPending} onClick={() => add.mutate(probed)}>
                Attach without comparing
              </Button>
            )}
            <Button variant="default" component={Link} to={`${home}/compute`}>
              Cancel
            </Button>
            <Text size="sm" c="dimmed" role="status">
              {connect.isPending && "Connecting. No credential is sent yet."}
              {add.isPending && (isAttached ? "Logging in and checking what is there. This takes some seconds." : "Creating.")}
            </Text>
          </Group>
        </Stack>
      </form>
      <aside className={classes.aside} aria-label="The same by command and in Python">
        <Text size="sm" c="dimmed">
          The same as a command and in Python. Passwords and keys are not in them: the command asks for them.
        </Text>
        <Equivalent command={text} python={pythonCode(equivalent)} />
        {missing.length > 0 && (
          <Text size="sm" c="dimmed">
            The command has no option for {missing.join(", ").toLowerCase()}.
          </Text>
        )}
      </aside>
    </div>
  );
}

/** The public half of the key that the workspace logs in with, to be put on a machine beforehand. */
function WorkspaceCredential({ kind }: { kind: string }) {
  const { workspace } = useWorkspace();
  const [isShown, setShown] = useState(false);
  const { data, error } = useQuery({ ...workspaceCredential(workspace, kind), enabled: isShown });
  return (
    <Stack gap={6}>
      <Anchor component="button" type="button" size="sm" ta="left" onClick={() => setShown(!isShown)} aria-expanded={isShown}>
        {isShown ? "Hide" : "Show"} the public half of the workspace's own key
      </Anchor>
      {error && <Failure error={error} />}
      {data && <Code text={data.public} label="Copy the public key" />}
    </Stack>
  );
}

/** What the server says about a target that was attached, and the way on. */
function Attached({ target, home }: { target: Added; home: string }) {
  return (
    <Stack gap="md" maw={760} role="status">
      <Section title={`Attached ${target.name}`}>
        <Stack gap="sm" p="md">
          {target.notes.map((note) => (
            <Code key={note} text={note} />
          ))}
        </Stack>
      </Section>
      <Group>
        <Button component={Link} to={`${home}/compute/${encodeURIComponent(target.name)}`}>
          Open {target.name}
        </Button>
        <Button variant="default" component={Link} to={`${home}/submit`} search={{ target: target.name } as never}>
          Submit a run there
        </Button>
      </Group>
    </Stack>
  );
}
