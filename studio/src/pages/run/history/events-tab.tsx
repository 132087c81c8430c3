/** All events of a run, the latest first: what changed, when, why, and with which data. */
import { Switch, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { RunDetails } from "@/api/queries";
import { StateBadge } from "@/components/state-badge";
import { Failure, Loading } from "@/components/states";
import { duration } from "@/lib/format";

import { runEvents } from "../queries";
import classes from "../run.module.css";
import { useRunSearch } from "../search";
import type { RunEvent } from "../timeline";

export function EventsTab({ run }: { run: RunDetails }) {
  const { data, error, refetch } = useQuery(runEvents(run));
  const [search, setSearch] = useRunSearch();
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading rows={6} height={40} />;
  const isOldestFirst = search.order === "oldest";
  const start = data[0] ? Date.parse(data[0].at) : 0;
  const events = isOldestFirst ? data : [...data].reverse();
  return (
    <>
      <Switch
        size="xs"
        mb="xs"
        label="Oldest first"
        checked={isOldestFirst}
        onChange={(event) => setSearch({ order: event.currentTarget.checked ? "oldest" : undefined })}
      />
      <div className={classes.scroll} tabIndex={0} role="region" aria-label="Events">
        <Table aria-label="Events" verticalSpacing={7}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={60}>No.</Table.Th>
              <Table.Th w={190}>Time</Table.Th>
              <Table.Th w={110}>After</Table.Th>
              <Table.Th w={150}>Event</Table.Th>
              <Table.Th>Why</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {events.map((event) => (
              <Row key={event.seq} event={event} start={start} />
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </>
  );
}

function Row({ event, start }: { event: RunEvent; start: number }) {
  const { seq, at, kind, state, reason, message, data } = event;
  const hasData = Object.keys(data).length > 0;
  return (
    <Table.Tr>
      <Table.Td className={classes.dim}>{seq}</Table.Td>
      <Table.Td className={classes.nowrap}>{new Date(at).toLocaleString()}</Table.Td>
      <Table.Td className={classes.nowrap}>{duration((Date.parse(at) - start) / 1000)}</Table.Td>
      <Table.Td className={classes.nowrap}>{state ? <StateBadge state={state} /> : kind.replaceAll("_", " ")}</Table.Td>
      <Table.Td>
        <Text size="sm">{message || (reason ?? "").replaceAll("_", " ") || "–"}</Text>
        {hasData && <pre className={classes.json}>{JSON.stringify(data, null, 1)}</pre>}
      </Table.Td>
    </Table.Tr>
  );
}
