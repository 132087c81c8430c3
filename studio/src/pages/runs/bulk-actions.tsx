/** What can be done with the selected runs. The result is shown for each run that it failed for. */
import { Button, Checkbox, Group, List, Modal, Progress, Stack, Text, TextInput } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconChartLine, IconPlayerStop, IconTag, IconTrash, IconX } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { useMay } from "@/api/session";
import { describe } from "@/components/states";
import { plural } from "@/lib/format";
import { isFinal } from "@/lib/states";
import classes from "./bulk-actions.module.css";
import { nameOf } from "./columns";
import { cancelRun, changeRun, deleteRun } from "./queries";
import type { Row } from "./run-list";

export const MOST_COMPARED = 10;
const AT_ONCE = 4;

type Props = { workspace: string; rows: Row[]; onClear: () => void; onDone: (ids: string[]) => void };
type Kind = "cancel" | "tag" | "archive" | "restore" | "delete";

export function BulkActions({ workspace, rows, onClear, onDone }: Props) {
  const may = useMay();
  const [kind, setKind] = useState<Kind | null>(null);
  const isWriter = may("runs.write");
  const canCompare = rows.length <= MOST_COMPARED;
  const hasArchived = rows.some((row) => row.archived_at);
  const hasOthers = rows.some((row) => !row.archived_at);
  const hasActive = rows.some((row) => !isFinal(row.state));
  return (
    <div className={classes.bar} role="toolbar" aria-label="Selected runs">
      <Text size="sm" fw={600}>
        {plural(rows.length, "run")} selected
      </Text>
      {canCompare ? (
        <Button
          variant="light"
          leftSection={<IconChartLine size={15} />}
          component={Link}
          to={`/workspaces/${encodeURIComponent(workspace)}/compare`}
          search={{ run: rows.map(({ id }) => id) } as never}
        >
          Compare
        </Button>
      ) : (
        <Text size="sm" c="dimmed">
          Up to {MOST_COMPARED} runs can be compared.
        </Text>
      )}
      {isWriter && <Action icon={IconTag} label="Tag" onClick={() => setKind("tag")} />}
      {may("runs.cancel") && hasActive && <Action icon={IconPlayerStop} label="Cancel" onClick={() => setKind("cancel")} />}
      {isWriter && hasOthers && <Action icon={IconArchive} label="Archive" onClick={() => setKind("archive")} />}
      {isWriter && hasArchived && <Action icon={IconArchiveOff} label="Restore" onClick={() => setKind("restore")} />}
      {isWriter && <Action icon={IconTrash} label="Delete" onClick={() => setKind("delete")} isDangerous />}
      <Button variant="subtle" color="gray" ml="auto" leftSection={<IconX size={14} />} onClick={onClear}>
        Clear
      </Button>
      {kind && <BulkDialog key={kind} {...{ workspace, rows, kind, onDone }} onClose={() => setKind(null)} />}
    </div>
  );
}

type ActionProps = { icon: typeof IconTag; label: string; onClick: () => void; isDangerous?: boolean };

function Action({ icon: Icon, label, onClick, isDangerous }: ActionProps) {
  return (
    <Button variant="default" leftSection={<Icon size={15} />} onClick={onClick} c={isDangerous ? "var(--studio-bad)" : undefined}>
      {label}
    </Button>
  );
}

const TITLES: Record<Kind, string> = { cancel: "Cancel", tag: "Tag", archive: "Archive", restore: "Restore", delete: "Delete" };

type DialogProps = { workspace: string; rows: Row[]; kind: Kind; onDone: (ids: string[]) => void; onClose: () => void };
type Failed = { row: Row; message: string };

function BulkDialog({ workspace, rows: given, kind, onDone, onClose }: DialogProps) {
  const [rows] = useState(() => (kind === "cancel" ? given.filter(({ state }) => !isFinal(state)) : given));
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [hasChildren, setChildren] = useState(false);
  const [done, setDone] = useState<number | null>(null);
  const [failed, setFailed] = useState<Failed[]>([]);
  const isOver = done === rows.length;
  const work: Record<Kind, (row: Row) => Promise<unknown>> = {
    cancel: ({ id }) => cancelRun(workspace, id),
    tag: ({ id }) => changeRun(workspace, id, { tags: { [key]: value } }),
    archive: ({ id }) => changeRun(workspace, id, { archived: true }),
    restore: ({ id }) => changeRun(workspace, id, { archived: false }),
    delete: ({ id }) => deleteRun(workspace, id, hasChildren),
  };
  async function run() {
    const failures: Failed[] = [];
    let count = 0;
    setDone(0);
    const left = [...rows];
    const one = async () => {
      for (let row = left.shift(); row; row = left.shift()) {
        await work[kind](row).catch((error: unknown) => failures.push({ row: row!, message: Object.values(describe(error)).join(" ") }));
        setDone(++count);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    const failedIds = new Set(failures.map(({ row }) => row.id));
    setFailed(failures);
    onDone(rows.map(({ id }) => id).filter((id) => !failedIds.has(id)));
    if (!failures.length) onClose();
  }
  const title = `${TITLES[kind]} ${plural(rows.length, "run")}`;
  return (
    <Modal opened onClose={onClose} title={title} closeOnClickOutside={done === null || isOver}>
      <form onSubmit={(event) => (event.preventDefault(), void run())}>
        <Stack gap="sm">
          {done === null && (
            <>
              <Names rows={rows} />
              {EXPLANATION[kind] && <Text size="sm">{EXPLANATION[kind]}</Text>}
              {kind === "tag" && (
                <Group grow>
                  <TextInput label="Tag" value={key} onChange={(event) => setKey(event.currentTarget.value)} data-autofocus required />
                  <TextInput label="Value" value={value} onChange={(event) => setValue(event.currentTarget.value)} />
                </Group>
              )}
              {kind === "delete" && (
                <Checkbox size="sm" label="Delete their children too" checked={hasChildren} onChange={(event) => setChildren(event.currentTarget.checked)} />
              )}
            </>
          )}
          {done !== null && !isOver && <Progress value={(100 * done) / rows.length} aria-label={`${done} of ${rows.length} done`} />}
          {isOver && failed.length > 0 && <Failures failed={failed} count={rows.length} />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {isOver ? "Close" : "Back"}
            </Button>
            {!isOver && (
              <Button type="submit" color={kind === "delete" || kind === "cancel" ? "red.8" : undefined} loading={done !== null} disabled={!rows.length}>
                {title}
              </Button>
            )}
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

const EXPLANATION: Record<Kind, ReactNode> = {
  cancel: "Their scripts are stopped. What they have logged and written so far stays.",
  tag: "",
  archive: "Archived runs are kept, but lists leave them out. They can be restored.",
  restore: "The runs appear in lists again.",
  delete:
    "Their logs, outputs, metrics, events and tags are deleted with them; registered models keep their files. This cannot be taken back. Runs that are active, or have children that stay, are refused.",
};

const SHOWN = 6;

function Names({ rows }: { rows: Row[] }) {
  return (
    <List size="sm" className={classes.names}>
      {rows.slice(0, SHOWN).map((row) => (
        <List.Item key={row.id}>
          {nameOf(row)} <span className={classes.dim}>{row.experiment} · {row.state}</span>
        </List.Item>
      ))}
      {rows.length > SHOWN && <List.Item>and {plural(rows.length - SHOWN, "other")}</List.Item>}
    </List>
  );
}

function Failures({ failed, count }: { failed: Failed[]; count: number }) {
  return (
    <div role="alert">
      <Text size="sm" fw={600}>
        {count - failed.length ? `Done for ${plural(count - failed.length, "run")}, ` : ""}
        failed for {failed.length}:
      </Text>
      <List size="sm" className={classes.failures}>
        {failed.map(({ row, message }) => (
          <List.Item key={row.id}>
            <strong>{nameOf(row)}</strong>: {message}
          </List.Item>
        ))}
      </List>
    </div>
  );
}
