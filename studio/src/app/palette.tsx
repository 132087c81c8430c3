/** The command palette: pages, runs by name or id, targets. */
import { Group, Kbd, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight } from "@mantine/spotlight";
import { useQuery } from "@tanstack/react-query";
import { IconPlayerPlay, IconSearch, IconServer } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { someRuns, targets } from "@/api/queries";
import { useMay } from "@/api/session";
import { StateBadge } from "@/components/state-badge";
import { PLACES } from "./navigation";

export function Palette({ workspace }: { workspace: string }) {
  const [query, setQuery] = useState("");
  const [search] = useDebouncedValue(query.trim(), 150);
  const navigate = useNavigate();
  const may = useMay();
  const found = useQuery({ ...someRuns(workspace, { search }, 6), enabled: search.length > 1 });
  const machines = useQuery({ ...targets(workspace), enabled: query.length > 0 });
  const text = query.trim().toLowerCase();
  const home = `/workspaces/${encodeURIComponent(workspace)}`;
  const places = PLACES.filter(({ label, permission }) => may(permission) && label.toLowerCase().includes(text));
  const known = text ? (machines.data?.targets ?? []).filter(({ name }) => name.toLowerCase().includes(text)).slice(0, 5) : [];
  const runs = search.length > 1 ? (found.data?.runs ?? []) : [];
  const go = (path: string) => void navigate({ to: home + path });
  return (
    <Spotlight.Root
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K"]}
      scrollable
      maxHeight={420}
      zIndex={400}
    >
      <Spotlight.Search
        placeholder="Run, target or page"
        aria-label="Search"
        leftSection={<IconSearch size={17} stroke={1.6} />}
      />
      <Spotlight.ActionsList>
        {runs.length > 0 && (
          <Spotlight.ActionsGroup label="Runs">
            {runs.map((run) => (
              <Spotlight.Action key={run.id} onClick={() => go(`/runs/${encodeURIComponent(run.id)}`)}>
                <Group gap="sm" wrap="nowrap" w="100%">
                  <IconPlayerPlay size={15} />
                  <Text size="sm" truncate>
                    {run.name || run.id}
                  </Text>
                  <Text size="xs" c="dimmed" truncate>
                    {run.experiment}
                  </Text>
                  <span style={{ marginLeft: "auto" }}>
                    <StateBadge state={run.state} />
                  </span>
                </Group>
              </Spotlight.Action>
            ))}
          </Spotlight.ActionsGroup>
        )}
        {known.length > 0 && (
          <Spotlight.ActionsGroup label="Targets">
            {known.map(({ name, kind }) => (
              <Spotlight.Action
                key={name}
                label={name}
                description={kind}
                leftSection={<IconServer size={15} />}
                onClick={() => go(`/compute/${encodeURIComponent(name)}`)}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {places.length > 0 && (
          <Spotlight.ActionsGroup label="Pages">
            {places.map(({ path, label, icon: Icon, key }) => (
              <Spotlight.Action
                key={label}
                label={label}
                leftSection={<Icon size={15} />}
                rightSection={
                  <span>
                    <Kbd size="xs">g</Kbd> <Kbd size="xs">{key}</Kbd>
                  </span>
                }
                onClick={() => go(path)}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {!runs.length && !known.length && !places.length && <Spotlight.Empty>Nothing found</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}
