/** What can be done with a run. What the role does not permit, or the state, is absent. */
import { ActionIcon, Button, Checkbox, Group, Menu, Modal, Select, Stack, Text, Textarea, TextInput, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import {
  IconArchive,
  IconArchiveOff,
  IconBox,
  IconDots,
  IconGitCompare,
  IconNote,
  IconPencil,
  IconPlayerStop,
  IconRefresh,
  IconTrash,
} from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";

import type { RunDetails } from "@/api/queries";
import { session, useMay } from "@/api/session";
import { Confirm } from "@/components/confirm";
import { describe, Failure } from "@/components/states";
import { isFinal } from "@/lib/states";

import { cancelRun, deleteRun, registerModel, runFiles } from "../queries";
import { useChange } from "./tags";

type Props = { run: RunDetails; isArchived: boolean };
type Dialog = "cancel" | "rename" | "note" | "model" | "delete" | null;

export function RunActions({ run, isArchived }: Props) {
  const may = useMay();
  const [dialog, setDialog] = useState<Dialog>(null);
  const { data: me } = useQuery(session());
  const change = useChange(run);
  const home = `/workspaces/${encodeURIComponent(run.workspace)}`;
  const isOver = isFinal(run.state);
  const close = () => setDialog(null);
  const ownsOrLeads = me?.role === "owner" || me?.name === run.submitted_by;
  function archive() {
    change.mutate(
      { archived: !isArchived },
      { onError: (error) => notifications.show({ color: "red", message: describe(error).message }) },
    );
  }
  return (
    <Group gap={6} wrap="nowrap">
      {may("runs.cancel") && !isOver && (
        <Button
          variant="default"
          leftSection={<IconPlayerStop size={14} />}
          disabled={run.intent === "cancel"}
          onClick={() => setDialog("cancel")}
        >
          {run.intent === "cancel" ? "Canceling …" : "Cancel"}
        </Button>
      )}
      {may("runs.submit") && run.spec && (
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} />}
          component={Link}
          to={`${home}/submit`}
          search={{ from: run.id } as never}
        >
          Rerun
        </Button>
      )}
      <Menu position="bottom-end" width={220}>
        <Menu.Target>
          <Tooltip label="More actions">
            <ActionIcon variant="default" size={30} aria-label="More actions">
              <IconDots size={16} />
            </ActionIcon>
          </Tooltip>
        </Menu.Target>
        <Menu.Dropdown>
          <Item icon={IconGitCompare} component={Link} to={`${home}/compare`} search={{ run: [run.id] }}>
            Compare with others
          </Item>
          {may("runs.write") && (
            <>
              <Item icon={IconPencil} onClick={() => setDialog("rename")}>
                Rename
              </Item>
              <Item icon={IconNote} onClick={() => setDialog("note")}>
                Edit the note
              </Item>
            </>
          )}
          {may("models.write") && (
            <Item icon={IconBox} onClick={() => setDialog("model")}>
              Register a model
            </Item>
          )}
          {may("runs.write") && (
            <>
              <Menu.Divider />
              <Item icon={isArchived ? IconArchiveOff : IconArchive} onClick={archive}>
                {isArchived ? "Restore from the archive" : "Archive"}
              </Item>
              {isOver && ownsOrLeads && (
                <Item icon={IconTrash} color="red" onClick={() => setDialog("delete")}>
                  Delete
                </Item>
              )}
            </>
          )}
        </Menu.Dropdown>
      </Menu>
      <Confirm opened={dialog === "cancel"} onClose={close} title="Cancel this run?" action="Cancel the run" run={() => cancelRun(run)}>
        Its processes are asked to end, and are killed after {run.spec?.grace_seconds ?? 30} seconds. Logs and outputs up to then are kept.
      </Confirm>
      <TextDialog opened={dialog === "rename"} onClose={close} run={run} field="name" title="Rename the run" label="Name" />
      <TextDialog opened={dialog === "note"} onClose={close} run={run} field="description" title="Note" label="Note" isLong />
      {dialog === "model" && <ModelDialog run={run} onClose={close} />}
      <DeleteDialog opened={dialog === "delete"} onClose={close} run={run} />
    </Group>
  );
}

type ItemProps = { icon: typeof IconBox; children: ReactNode; [name: string]: unknown };

function Item({ icon: Icon, children, ...rest }: ItemProps) {
  return (
    <Menu.Item leftSection={<Icon size={15} />} {...rest}>
      {children}
    </Menu.Item>
  );
}

type DialogProps = { opened: boolean; onClose: () => void; run: RunDetails };
type TextDialogProps = DialogProps & { field: "name" | "description"; title: string; label: string; isLong?: boolean };

/** Changes one text of a run. */
export function TextDialog({ opened, onClose, run, field, title, label, isLong = false }: TextDialogProps) {
  return (
    <Modal opened={opened} onClose={onClose} title={title} size={isLong ? "lg" : "md"}>
      <TextForm {...{ onClose, run, field, label, isLong }} />
    </Modal>
  );
}

function TextForm({ onClose, run, field, label, isLong }: Omit<TextDialogProps, "opened" | "title">) {
  const [text, setText] = useState(run[field]);
  const change = useChange(run);
  const Input = isLong ? Textarea : TextInput;
  function save(event: FormEvent) {
    event.preventDefault();
    change.mutate({ [field]: text }, { onSuccess: onClose });
  }
  return (
    <form onSubmit={save}>
      <Stack gap="sm">
        <Input
          label={label}
          value={text}
          onChange={(event: { currentTarget: { value: string } }) => setText(event.currentTarget.value)}
          data-autofocus
          {...(isLong ? { autosize: true, minRows: 5, maxRows: 16 } : {})}
        />
        {change.error && <Failure error={change.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={change.isPending}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function DeleteDialog({ opened, onClose, run }: DialogProps) {
  const [withChildren, setWithChildren] = useState(false);
  const client = useQueryClient();
  const navigate = useNavigate();
  async function remove() {
    await deleteRun(run, withChildren);
    await navigate({ to: `/workspaces/${encodeURIComponent(run.workspace)}/runs` });
    client.removeQueries({ queryKey: ["run", run.workspace, run.id] });
    void client.invalidateQueries({ queryKey: ["runs", run.workspace] });
  }
  return (
    <Confirm opened={opened} onClose={onClose} title="Delete this run?" action="Delete" run={remove}>
      <Stack gap="sm">
        <Text size="sm">Its record goes, with logs, metrics, outputs and events. This cannot be undone. Models that were registered from it stay.</Text>
        <Checkbox label="Delete its child runs too" checked={withChildren} onChange={(event) => setWithChildren(event.currentTarget.checked)} />
      </Stack>
    </Confirm>
  );
}

function ModelDialog({ run, onClose }: { run: RunDetails; onClose: () => void }) {
  const files = useQuery(runFiles(run));
  const [path, setPath] = useState<string | null>(null);
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const client = useQueryClient();
  const navigate = useNavigate();
  const paths = pathsOf(files.data?.files.filter(({ is_live }) => !is_live).map((file) => file.path) ?? []);
  const work = useMutation({
    mutationFn: () => registerModel(run, name.trim(), path!, description),
    onSuccess: async (model) => {
      await client.invalidateQueries({ queryKey: ["models"] });
      notifications.show({ color: "green", message: `Registered ${model.name}, version ${model.version}.` });
      await navigate({ to: `/workspaces/${encodeURIComponent(run.workspace)}/models/${encodeURIComponent(model.name)}` });
    },
  });
  function register(event: FormEvent) {
    event.preventDefault();
    if (path && name.trim()) work.mutate();
  }
  return (
    <Modal opened onClose={onClose} title="Register a model">
      <form onSubmit={register}>
        <Stack gap="sm">
          <Select
            label="File or folder of the run"
            placeholder={paths.length ? "Choose" : "The run has no outputs yet"}
            data={paths}
            value={path}
            onChange={setPath}
            searchable
            data-autofocus
            maxDropdownHeight={260}
          />
          <TextInput label="Name of the model" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <Textarea label="Description" autosize minRows={2} value={description} onChange={(event) => setDescription(event.currentTarget.value)} />
          {(work.error || files.error) && <Failure error={work.error ?? files.error} />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              Back
            </Button>
            <Button type="submit" loading={work.isPending} disabled={!path || !name.trim()}>
              Register
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** Files of a run that can be a model, and the folders they are in: outputs first. */
export function pathsOf(files: string[]): string[] {
  const usable = files.filter((path) => !/^(user_logs|azureml-logs|system_logs|logs|attempts)\//.test(path));
  const folders = usable.flatMap((path) => {
    const parts = path.split("/").slice(0, -1);
    return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
  });
  const isOutput = (path: string) => (path.startsWith("outputs") ? 0 : 1);
  return [...new Set([...folders, ...usable])].sort((a, b) => isOutput(a) - isOutput(b) || a.localeCompare(b));
}
