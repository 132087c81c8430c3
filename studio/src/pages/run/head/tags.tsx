/** The tags of a run; those that may write change them here. */
import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { IconPlus, IconX } from "@tabler/icons-react";
import { useState } from "react";

import type { RunDetails } from "@/api/queries";
import { useMay } from "@/api/session";
import { Failure } from "@/components/states";

import { changeRun } from "../queries";
import classes from "./head.module.css";

/** A change of a run; its page is renewed afterwards. */
export function useChange(run: RunDetails) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (change: Record<string, unknown>) => changeRun(run, change),
    onSuccess: () => client.invalidateQueries({ queryKey: ["run", run.workspace, run.id] }),
  });
}

export function Tags({ run }: { run: RunDetails }) {
  const may = useMay();
  const change = useChange(run);
  const tags = Object.entries(run.tags);
  const isEditable = may("runs.write");
  if (!tags.length && !isEditable) return null;
  return (
    <div className={classes.tags}>
      {tags.map(([key, value]) => (
        <span key={key} className={classes.tag} data-plain={!isEditable || undefined}>
          <span>
            {value === null ? key : <span className={classes.key}>{key}=</span>}
            {value}
          </span>
          {isEditable && (
            <ActionIcon size={18} aria-label={`Remove the tag ${key}`} onClick={() => change.mutate({ remove_tags: [key] })}>
              <IconX size={11} />
            </ActionIcon>
          )}
        </span>
      ))}
      {isEditable && <AddTag run={run} />}
      {change.error && <Failure error={change.error} />}
    </div>
  );
}

function AddTag({ run }: { run: RunDetails }) {
  const [isOpen, setOpen] = useState(false);
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const change = useChange(run);
  function add(event: React.FormEvent) {
    event.preventDefault();
    if (!key.trim()) return;
    change.mutate(
      { tags: { [key.trim()]: value === "" ? null : value } },
      { onSuccess: () => (setOpen(false), setKey(""), setValue("")) },
    );
  }
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-start" trapFocus shadow="md" withinPortal>
      <Popover.Target>
        <Button variant="subtle" color="gray" size="compact-xs" leftSection={<IconPlus size={12} />} onClick={() => setOpen(!isOpen)}>
          Tag
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Add a tag">
        <form onSubmit={add}>
          <Stack gap="xs">
            <Group gap="xs" wrap="nowrap" align="flex-end">
              <TextInput label="Key" size="xs" w={130} value={key} onChange={(event) => setKey(event.currentTarget.value)} data-autofocus />
              <TextInput label="Value" size="xs" w={130} value={value} onChange={(event) => setValue(event.currentTarget.value)} />
              <Button type="submit" loading={change.isPending} disabled={!key.trim()}>
                Add
              </Button>
            </Group>
            <Text size="xs" c="dimmed">
              A tag of the same key is replaced. The value may stay empty.
            </Text>
            {change.error && <Failure error={change.error} />}
          </Stack>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
