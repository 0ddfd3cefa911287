"""stub for types"""
