"""The report: from recorded runs to one folder of a page, tables, figures, manifests and samples."""
