/** The log of a target: its provisioning, its nodes, changes, evictions and quarantines; the newest first. */
import { Button, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";

import { Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { targetEvents } from "./queries";

export function TargetEvents({ name }: { name: string }) {
  const { workspace } = useWorkspace();
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(targetEvents(workspace, name));
  const events = data?.pages.flatMap((page) => page.events) ?? [];
  return (
    <Section title="Events">
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <div className={classes.pad}>
          <Loading rows={3} />
        </div>
      ) : !events.length ? (
        <Text size="sm" c="dimmed" className={classes.pad}>Nothing has happened yet.</Text>
      ) : (
        <ol className={classes.rows}>
          {events.map((event) => (
            <li key={event.number}>
              <div className={classes.line}>
                <Text size="sm" className={classes.sentence}>{event.message || event.kind}</Text>
                <Text size="xs" c="dimmed">
                  <Ago time={event.at} />
                </Text>
              </div>
              {event.message && <Text size="xs" c="dimmed">{event.kind.replaceAll(/[._-]/g, " ")}</Text>}
            </li>
          ))}
        </ol>
      )}
      {hasNextPage && (
        <div className={classes.pad}>
          <Button variant="default" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Older events
          </Button>
        </div>
      )}
    </Section>
  );
}
