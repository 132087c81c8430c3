/** Registered models: the latest version of each. */
import { Anchor, Badge, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import { Link } from "@tanstack/react-router";

import { Code } from "@/components/code";
import { ListPage } from "@/components/list-page";
import { Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { bytes } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import { type Model, models } from "./queries";

export function ModelsPage() {
  const { workspace, home } = useWorkspace();
  const { data: found, error, refetch } = useQuery(models(workspace));
  const columns: ColumnDef<Model>[] = [
    {
      header: "Name",
      accessorKey: "name",
      cell: ({ row: { original: model } }) => (
        <Anchor component={Link} to={`${home}/models/${encodeURIComponent(model.name)}`} size="sm" fw={500}>
          {model.name}
        </Anchor>
      ),
    },
    { header: "Latest version", accessorKey: "version" },
    { id: "framework", header: "Framework", accessorFn: ({ framework, framework_version }) => `${framework} ${framework_version}`.trim() },
    { header: "Experiment", accessorKey: "experiment" },
    {
      id: "tags",
      header: "Tags",
      enableSorting: false,
      accessorFn: ({ tags }) => Object.entries(tags).map(([key, value]) => `${key}: ${value}`).join(" "),
      cell: ({ row }) => <Tags tags={row.original.tags} />,
    },
    { id: "size", header: "Size", accessorFn: sizeOf, cell: ({ row }) => bytes(sizeOf(row.original)) },
    { header: "By", accessorKey: "created_by" },
    { header: "Registered", accessorKey: "created_at", cell: ({ row }) => <Ago time={row.original.created_at} /> },
  ];
  return (
    <ListPage
      title="Models"
      description="Files under a name, in versions that never change, with the run that made them."
      rows={found?.models}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      empty={
        <Empty title="No models">
          <Text size="sm" mb="xs">
            Register an output of a run on the run's page, in the script by <code>run.register_model()</code>, or by a command:
          </Text>
          <Code text="windlass model register ridge outputs/model.json --run @last" />
        </Empty>
      }
    />
  );
}

export const sizeOf = (model: Model) => model.files.reduce((sum, { size }) => sum + size, 0);

export function Tags({ tags }: { tags: Record<string, string | null> }) {
  return (
    <Group gap={4}>
      {Object.entries(tags).map(([key, value]) => (
        <Badge key={key} variant="default" tt="none" fw={400} size="sm">
          {value === null || value === "" ? key : `${key}: ${value}`}
        </Badge>
      ))}
    </Group>
  );
}
