/** Finds a run by its name or id and adds it to the comparison. */
import { Button, Popover, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";

import { someRuns } from "@/api/queries";
import { StateBadge } from "@/components/state-badge";
import { Failure } from "@/components/states";
import { Ago } from "@/components/time";
import classes from "./compare-page.module.css";

type Props = { workspace: string; without: string[]; onAdd: (id: string) => void };

export function AddRun(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" width={360} trapFocus returnFocus shadow="md">
      <Popover.Target>
        <Button variant="default" leftSection={<IconPlus size={15} />} onClick={() => setOpen(!isOpen)}>
          Add a run
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="xs">{isOpen && <Choice {...props} />}</Popover.Dropdown>
    </Popover>
  );
}

function Choice({ workspace, without, onAdd }: Props) {
  const [text, setText] = useState("");
  const [search] = useDebouncedValue(text.trim(), 200);
  const { data, error } = useQuery({ ...someRuns(workspace, search ? { search } : {}, 12), placeholderData: keepPreviousData });
  const found = (data?.runs ?? []).filter(({ id }) => !without.includes(id));
  return (
    <Stack gap="xs">
      <TextInput size="xs" aria-label="Find a run" placeholder="Name or id" value={text} onChange={(event) => setText(event.currentTarget.value)} data-autofocus />
      {error && <Failure error={error} />}
      <div className={classes.found}>
        {found.map((run) => (
          <UnstyledButton key={run.id} className={classes.choice} onClick={() => onAdd(run.id)}>
            <span className={classes.choiceName}>
              {run.name || run.id}
              <Text span size="xs" c="dimmed">
                {" "}
                {run.experiment} · <Ago time={run.created_at} />
              </Text>
            </span>
            <StateBadge state={run.state} />
          </UnstyledButton>
        ))}
        {data && !found.length && (
          <Text size="sm" c="dimmed" p={6}>
            No other run matches.
          </Text>
        )}
      </div>
    </Stack>
  );
}
