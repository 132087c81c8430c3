/** Which columns are shown, and in which order. */
import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { IconArrowDown, IconArrowUp, IconColumns3, IconX } from "@tabler/icons-react";
import { useState } from "react";

import { type Column, columnOf, fixedColumns } from "./columns";
import classes from "./columns-menu.module.css";
import { runColumns } from "./queries";

type Props = { workspace: string; experiment?: string; columns: Column[]; onChange: (ids: string[] | undefined) => void };

export function ColumnsMenu({ workspace, experiment, columns, onChange }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" width={300} trapFocus returnFocus shadow="md">
      <Popover.Target>
        <Button variant="default" leftSection={<IconColumns3 size={15} />} onClick={() => setOpen(!isOpen)}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="xs">{isOpen && <Choice {...{ workspace, experiment, columns, onChange }} />}</Popover.Dropdown>
    </Popover>
  );
}

function Choice({ workspace, experiment, columns, onChange }: Props) {
  const { data: known } = useQuery(runColumns(workspace, experiment));
  const [text, setText] = useState("");
  const ids = columns.map(({ id }) => id);
  const isFound = (column: Column) => !ids.includes(column.id) && column.label.toLowerCase().includes(text.toLowerCase());
  const named = (kind: string, names: string[] = []) => names.flatMap((name) => columnOf(`${kind}.${name}`) ?? []).filter(isFound);
  const groups: [string, Column[]][] = [
    ["Metrics", named("metric", known?.metrics)],
    ["Parameters", named("parameter", known?.parameters)],
    ["Tags", named("tag", known?.tags)],
    ["Of the run", fixedColumns().filter(isFound)],
  ];
  function move(at: number, by: number) {
    const next = [...ids];
    next.splice(at + by, 0, ...next.splice(at, 1));
    onChange(next);
  }
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="xs" fw={600}>
          Shown
        </Text>
        <Button size="compact-xs" variant="subtle" onClick={() => onChange(undefined)}>
          As usual
        </Button>
      </Group>
      <ol className={classes.list} aria-label="Shown columns">
        {columns.map(({ id, label }, at) => (
          <li key={id} className={classes.row}>
            <span className={classes.label}>{label}</span>
            <ActionIcon size="sm" aria-label={`Move ${label} to the left`} disabled={at === 0} onClick={() => move(at, -1)}>
              <IconArrowUp size={13} />
            </ActionIcon>
            <ActionIcon size="sm" aria-label={`Move ${label} to the right`} disabled={at === ids.length - 1} onClick={() => move(at, 1)}>
              <IconArrowDown size={13} />
            </ActionIcon>
            <ActionIcon
              size="sm"
              aria-label={`Hide ${label}`}
              disabled={ids.length === 1}
              onClick={() => onChange(ids.filter((each) => each !== id))}
            >
              <IconX size={13} />
            </ActionIcon>
          </li>
        ))}
      </ol>
      <TextInput
        size="xs"
        aria-label="Find a column"
        placeholder="Add a metric, parameter or tag"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
      <div className={classes.more}>
        {groups.map(([title, found]) =>
          found.length ? (
            <div key={title} role="group" aria-label={title}>
              <Text size="xs" c="dimmed" px={6} pt={4}>
                {title}
              </Text>
              {found.map(({ id, label }) => (
                <UnstyledButton key={id} className={classes.add} onClick={() => onChange([...ids, id])}>
                  {label}
                </UnstyledButton>
              ))}
            </div>
          ) : null,
        )}
      </div>
    </Stack>
  );
}
